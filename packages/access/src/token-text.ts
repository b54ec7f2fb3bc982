import { createHash, randomBytes } from 'node:crypto';

/** Lets people and secret scanners see what a leaked text is. */
const PREFIX = 'sluice_';
const TOKEN = new RegExp(`^${PREFIX}[A-Za-z0-9_-]{43}$`);

/** A new token: 256 random bits. */
export function newTokenText(): string {
  return `${PREFIX}${randomBytes(32).toString('base64url')}`;
}

/** Whether the text can be a token at all; anything else needs no look-up. */
export function isTokenText(text: string): boolean {
  return TOKEN.test(text);
}

/**
 * What is stored of a token. A slow, salted hash protects passwords that people think of, which can be guessed one by
 * one; there is nothing to guess in 256 random bits, and this hash is computed for every request.
 */
export function hashToken(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
