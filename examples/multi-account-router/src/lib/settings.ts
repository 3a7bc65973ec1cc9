// The host's settings, as its other modules read them.
const settings: Record<string, unknown> = {};

export function getSettings(): Record<string, unknown> {
  return settings;
}
