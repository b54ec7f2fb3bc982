import { expect, test } from 'vitest';
import { encodePkt, FLUSH } from './pkt-line.ts';
import { SidebandInjector } from './sideband-injector.ts';

const answer = Buffer.concat([encodePkt('\u0001first'), encodePkt('\u0001second'), FLUSH]);

async function read(injector: SidebandInjector): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of injector) parts.push(part as Buffer);
  return Buffer.concat(parts).toString('latin1');
}

test.each([1, 2, 3, 5, 100])(
  'lines come between packets when the answer arrives %i bytes at a time',
  async (size) => {
    const injector = new SidebandInjector(true);
    const reading = read(injector);
    injector.write(answer.subarray(0, 6));
    injector.show(['push 1', '\u001b[2J']);
    for (let at = 6; at < answer.length; at += size) injector.write(answer.subarray(at, at + size));
    injector.end();
    expect(await reading).toBe(
      Buffer.concat([
        encodePkt('\u0001first'),
        encodePkt('\u0002push 1\n'),
        encodePkt('\u0002\\u{1b}[2J\n'),
        encodePkt('\u0001second'),
        FLUSH,
      ]).toString('latin1'),
    );
  },
);

test.each([1, 3, 100])('what git says is heard, and answered behind it, %i bytes at a time', async (size) => {
  const said = Buffer.concat([encodePkt('\u0001report'), encodePkt('\u0002fatal: no'), FLUSH]);
  const heard: string[] = [];
  const injector = new SidebandInjector(true, (text) => {
    heard.push(text);
    injector.show(['because']);
  });
  const reading = read(injector);
  for (let at = 0; at < said.length; at += size) injector.write(said.subarray(at, at + size));
  injector.end();
  expect(await reading).toBe(
    Buffer.concat([
      encodePkt('\u0001report'),
      encodePkt('\u0002fatal: no'),
      encodePkt('\u0002because\n'),
      FLUSH,
    ]).toString('latin1'),
  );
  expect(heard).toEqual(['fatal: no']);
});

test('a client without side-band gets the bytes unchanged', async () => {
  const injector = new SidebandInjector(false);
  injector.show(['never seen']);
  injector.end(Buffer.from('000eunpack ok\n0000'));
  expect(await read(injector)).toBe('000eunpack ok\n0000');
});

test('an answer that is no pkt-line ends the stream with an error', async () => {
  const injector = new SidebandInjector(true);
  injector.end(Buffer.from('fatal: something'));
  await expect(read(injector)).rejects.toThrow(/bad line length/);
});
