// What the host knows of its providers: loading a connection, and asking how much of an account is used.
import type { SaturationFetchers } from 'quota-core';

export const usageAnswers = new Map<string, unknown>();

export const usageFetchers: SaturationFetchers = {
  codex: async (connectionId) => usageAnswers.get(connectionId) ?? null,
  bailian: async (connectionId) => usageAnswers.get(connectionId) ?? null,
  loadConnection: async (connectionId) => ({ id: connectionId, accessToken: 'token', authType: 'oauth' }),
  fetchUsage: async (connection: { id: string }) => usageAnswers.get(connection.id) ?? null,
  generic: async (connectionId) => usageAnswers.get(connectionId) ?? null,
};
