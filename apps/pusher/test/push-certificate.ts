import { encodePkt, FLUSH } from '../src/wire/pkt-line.ts';
import { send } from './raw-push.ts';

/** The nonce that the server shows to a push. */
export async function nonceOf(remote: string): Promise<string> {
  const { text } = await send(`${remote}/info/refs?service=git-receive-pack`);
  return /push-cert=(\S+)/.exec(text)?.[1] ?? 'none';
}

/** What a client sends ahead of its pack when it signs. */
export function signedPreamble(certificate: string, capabilities = 'report-status side-band-64k'): Buffer {
  const lines = certificate.split(/(?<=\n)/).map((line) => encodePkt(Buffer.from(line, 'latin1')));
  return Buffer.concat([
    encodePkt(`push-cert\0${capabilities}\n`),
    ...lines,
    encodePkt('push-cert-end\n'),
    FLUSH,
  ]);
}
