// The host's key validation: a call that costs no quota and tells whether the provider accepts the key.
const answers = new Map<number, 'valid' | 'invalid' | 'error'>();

export function setAnswer(keyId: number, answer: 'valid' | 'invalid' | 'error'): void {
  answers.set(keyId, answer);
}

export async function validateKey(keyId: number): Promise<'valid' | 'invalid' | 'error'> {
  return answers.get(keyId) ?? 'error';
}
