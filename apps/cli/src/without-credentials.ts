import { printableLine } from './terminal.ts';

/** The text with the user part of every URL replaced, since a token may stand there with or without a user name. */
export function withoutCredentials(text: string): string {
  return text.replaceAll(/([a-z][a-z0-9+.-]*:\/\/)[^\s/'"<>]*@/gi, '$1***@');
}

/** A remote's name or URL as it may be shown. */
export function shownRemote(remote: string): string {
  return withoutCredentials(printableLine(remote));
}
