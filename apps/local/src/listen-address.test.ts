import { expect, test } from 'vitest';
import { listenAddress } from './listen-address.ts';

test.each(['0.0.0.0:7420', '[::]:7420'])(
  '%s without a token is refused before anything starts',
  async (listen) => {
    await expect(listenAddress(listen, undefined)).rejects.toThrow(
      /SLUICE_LISTEN: expected a loopback address.*SLUICE_TOKEN/,
    );
  },
);

test('what is no address is named with an example', async () => {
  await expect(listenAddress('7420', undefined)).rejects.toThrow(
    'SLUICE_LISTEN: expected host:port, got "7420"; for example SLUICE_LISTEN=127.0.0.1:7420',
  );
});
