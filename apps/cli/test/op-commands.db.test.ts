import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { table } from '@sluice/db';
import {
  commitPush,
  loadServerKey,
  lockRepo,
  registerServerKey,
  retireServerKey,
  type RefEdit,
  type ServerKey,
} from '@sluice/ref-store';
import { makeTempFolder, useTempFolder, useTestDatabase } from '@sluice/testkit';
import { sql, type RawBuilder } from 'kysely';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { runCli } from './run-cli.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const temporary = useTempFolder();
const env = () => ({ DATABASE_URL: database.url });
const cli = (...args: string[]) => runCli(args, { env: env() });

const newKey = async (): Promise<ServerKey> => {
  using folder = makeTempFolder();
  return await loadServerKey(join(folder.path, 'key'));
};
const oidOf = (n: number): string => n.toString(16).padStart(40, 'a');

let key: ServerKey;
beforeAll(async () => {
  key = await newKey();
  await registerServerKey(database.db, key);
});

/** Pushes that each move one of ten branches; every seventh makes a tag as well. Returns their ids. */
async function makePushes(
  repoId: string,
  count: number,
  {
    signWith = key,
    from = 0,
    ...more
  }: { noEffects?: string; pushOptions?: string[]; signWith?: ServerKey; from?: number } = {},
): Promise<string[]> {
  const pushIds: string[] = [];
  while (pushIds.length < count) {
    await database.db.transaction().execute(async (trx) => {
      for (let left = Math.min(100, count - pushIds.length); left > 0; left--) {
        const n = from + pushIds.length;
        const repo = await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
        const names = [`refs/heads/b${n % 10}`, ...(n % 7 === 0 ? [`refs/tags/t${n}`] : [])];
        const outcome = await commitPush(trx, {
          repo: repo!,
          edits: names.map((name) => ({ name, expect: 'any', to: oidOf(n + 1) })),
          signer: n % 2 === 0 ? 'ada' : null,
          key: signWith,
          ...more,
        });
        if (outcome.status !== 'committed') throw new Error(outcome.status);
        pushIds.push(outcome.pushId);
      }
    });
  }
  return pushIds;
}

async function change(statements: readonly RawBuilder<unknown>[]): Promise<void> {
  for (const statement of statements) await statement.execute(database.db);
}

describe('sluice op verify', () => {
  it('verifies every repository, and shows a terminal how far it is', async () => {
    await makePushes('verify/bad', 1);
    await sql`delete from ${table('ref')} where repo_id = 'verify/bad'`.execute(database.db);
    await makePushes('verify/one', 1);
    await makePushes('verify/two', 2);
    const { code, stdout, stderr } = await runCli(['op', 'verify', '--all'], { env: env(), isTTY: true });
    expect(stdout).toContain('verify/one: 1 push, all fits\nverify/two: 2 pushes, all fits\n');
    expect(code).toBe(1);
    expect(stderr).toContain('verify/two: 0 of 2 pushes');
    expect(stderr).toContain('verify/two: signatures of 0 of 2 pushes');
    expect(stderr).toMatch(/\r\u001b\[Ksluice: \d of \d repositories do/);
  });

  it('passes a thousand pushes, and names a changed byte of a record, of the reflog and of a ref', async () => {
    const repoId = 'verify/thousand';
    const pushIds = await makePushes(repoId, 1000);
    const whole = { code: 0, stdout: `${repoId}: 1000 pushes, all fits\n`, stderr: '' };
    expect(await cli('op', 'verify', repoId)).toEqual(whole);
    await change([
      sql`update ${table('op_record')} set body = set_byte(body, 60, get_byte(body, 60) # 1) where push_id = ${pushIds[700]}`,
      sql`update ${table('reflog')} set new_oid = 'b' || substr(new_oid, 2) where push_id = ${pushIds[503]}`,
      sql`update ${table('ref')} set oid = 'b' || substr(oid, 2) where repo_id = ${repoId} and name = 'refs/heads/b4'`,
    ]);
    const { code, stdout } = await cli('op', 'verify', repoId);
    expect([code, stdout.split('\n')]).toEqual([
      1,
      [
        `${repoId}: 1000 pushes`,
        `  push ${pushIds[503]}: its edits or certificate differ from the signed ones`,
        `  push ${pushIds[513]}: the old value of refs/heads/b3 is not what the log left`,
        `  push ${pushIds[700]}: the bytes do not hash to the push id`,
        '  the value of refs/heads/b4 is not what the log says',
        '',
      ],
    ]);
  });

  it('names the first record that a change by hand leaves without a fit', async () => {
    const repoId = 'verify/api';
    // More than are read at once.
    const pushIds = await makePushes(repoId, 210);
    const setNumbers = (numbers: Record<number, bigint>) => [
      sql`alter table ${table('op_record')} drop constraint op_record_seq_is_unique`,
      ...Object.entries(numbers).map(
        ([n, seq]) =>
          sql`update ${table('op_record')} set seq = ${seq} where push_id = ${pushIds[Number(n)]}`,
      ),
      sql`alter table ${table('op_record')} add constraint op_record_seq_is_unique unique (repo_id, seq)`,
    ];
    const flipByte = sql`update ${table('op_record')} set body = set_byte(body, 60, get_byte(body, 60) # 1) where push_id = ${pushIds[205]}`;
    const setSignature = (to: string) =>
      sql`update ${table('op_record')} set signature = overlay(signature placing ${to} from 60 for 1) where push_id = ${pushIds[77]}`;
    const { signature } = await database.db
      .selectFrom('op_record')
      .select('signature')
      .where('push_id', '=', pushIds[77]!)
      .executeTakeFirstOrThrow();
    const setRef = (oid: string) =>
      sql`update ${table('ref')} set oid = ${oid} where repo_id = ${repoId} and name = 'refs/heads/b3'`;
    const setReflog = (oid: string) =>
      sql`update ${table('reflog')} set new_oid = ${oid} where push_id = ${pushIds[103]}`;
    const tampering: [RawBuilder<unknown>[], string, RawBuilder<unknown>[]][] = [
      [[flipByte], `push ${pushIds[205]}: the bytes do not hash to the push id`, [flipByte]],
      [
        [setSignature('!')],
        `push ${pushIds[77]}: its signature differs from the one that it holds`,
        [setSignature(signature![59]!)],
      ],
      [[setRef(oidOf(7))], 'the value of refs/heads/b3 is not what the log says', [setRef(oidOf(204))]],
      [
        [setReflog(oidOf(7))],
        `push ${pushIds[103]}: its edits or certificate differ from the signed ones`,
        [setReflog(oidOf(104))],
      ],
      [
        setNumbers({ 150: 152n, 151: 151n }),
        `push ${pushIds[151]}: its parent is not the record before it`,
        setNumbers({ 150: 151n, 151: 152n }),
      ],
      [
        [sql`delete from ${table('op_record')} where push_id = ${pushIds[120]}`],
        `push ${pushIds[121]}: expected number 121, got 122: push ${pushIds[120]}, which it names as the one before, is missing`,
        [],
      ],
    ];
    for (const [changes, first, undo] of tampering) {
      await change(changes);
      const { code, stdout, stderr } = await cli('op', 'verify', repoId);
      const [heading, problem] = stdout.split('\n');
      expect([code, problem]).toEqual([1, `  ${first}`]);
      expect(heading).toMatch(/^verify\/api: (210|209) pushes$/);
      expect(stderr).toMatch(/^sluice: 1 of 1 repository does not fit what was signed\n {2}next: /);
      await change(undo);
    }
  });

  it('names the one record that is signed by a key that nobody registered', async () => {
    const repoId = 'verify/stranger';
    await makePushes(repoId, 2);
    const stranger = await newKey();
    const [pushId] = await makePushes(repoId, 1, { signWith: stranger, from: 2 });
    await makePushes(repoId, 2, { from: 3 });
    expect(await cli('op', 'verify', repoId)).toMatchObject({
      code: 1,
      stdout: `${repoId}: 5 pushes\n  push ${pushId}: the record is signed by a key that is not trusted\n`,
    });
    await registerServerKey(database.db, stranger);
    expect(await cli('op', 'verify', repoId)).toMatchObject({ code: 0 });
    await retireServerKey(database.db, stranger.fingerprint);
    expect(await cli('op', 'verify', repoId)).toMatchObject({ code: 0 });
  });

  it('trusts the keys it is given, and no others', async () => {
    await makePushes('verify/key', 2);
    const [ours, theirs] = [join(temporary.path, 'ours'), join(temporary.path, 'theirs')];
    await writeFile(ours, `# kept elsewhere\nsluice@localhost ${key.publicKey} a comment\n`);
    await writeFile(theirs, `${(await newKey()).publicKey}\n`);
    expect(await cli('op', 'verify', 'verify/key', '--key', ours)).toMatchObject({ code: 0 });
    const untrusted = await cli('op', 'verify', 'verify/key', '--key', theirs);
    expect(untrusted.code).toBe(1);
    expect(untrusted.stdout.match(/signed by a key that is not trusted/g)).toHaveLength(2);
  });

  it('interrupted, it does not say that all is well', async () => {
    await makePushes('verify/stop', 2);
    for (const at of ['0 of 2 pushes', 'signatures of 0 of 2 pushes']) {
      const stop = new AbortController();
      const result = await runCli(['op', 'verify', 'verify/stop'], {
        env: env(),
        isTTY: true,
        signal: stop.signal,
        onOutput: (all) => {
          if (all.endsWith(`verify/stop: ${at}`)) stop.abort();
        },
      });
      expect(result).toMatchObject({ code: 1, stdout: '' });
      expect(result.stderr).toContain('sluice: interrupted in verify/stop');
    }
  });

  it.each([
    [[], /expected either a repository or --all/],
    [['acme/api', '--all'], /expected either a repository or --all/],
    [['acme/none'], /there is no repository called acme\/none/],
    [['--all', '--key', '/no/such/file'], /cannot read \/no\/such\/file: ENOENT/],
    [['--all', '--key', '/dev/null'], /expected an ssh-ed25519 key/],
  ])('refuses %j', async (args, message) => {
    const result = await cli('op', 'verify', ...args);
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
  });
});

describe('sluice op show', () => {
  it('says where the id of a push is found', async () => {
    expect(await cli('op', 'show', '0123456')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/there is no push 0123456\n {2}next: .* git push .* sluice repo show /),
    });
  });

  it('shows a push by the first digits of its id', async () => {
    const [first, second] = await makePushes('show/api', 2, {
      noEffects: 'the push asked for it',
      pushOptions: ['ci.skip', 'a\u202eb\u200ec'],
    });
    const { stdout } = await cli('op', 'show', second!.slice(0, 12));
    expect(stdout.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/, 'NOW').split('\n')).toEqual([
      `push         ${second}`,
      'repository   show/api',
      'number       2',
      `before it    ${first}`,
      'pushed by    not known: no account, no signature',
      'at           NOW',
      'push option  ci.skip',
      'push option  abc',
      'no effects   the push asked for it',
      `record       good, signed by ${key.fingerprint}`,
      '',
      `REF            BEFORE  AFTER`,
      `refs/heads/b1  none    ${oidOf(2)}`,
      '',
    ]);
  });

  it('names the dispatcher of a result, also of one that showed no token', async () => {
    const pushedBy = async (
      signer: string | null,
      edits: readonly RefEdit[],
    ): Promise<string | undefined> => {
      const outcome = await database.db.transaction().execute(async (trx) => {
        const repo = await lockRepo(trx, { repoId: 'show/result', create: { objectFormat: 'sha1' } });
        return await commitPush(trx, { repo: repo!, edits, signer, key });
      });
      if (outcome.status !== 'committed') throw new Error(outcome.status);
      const { stdout } = await cli('op', 'show', outcome.pushId);
      return /^pushed by +(.*)$/m.exec(stdout)?.[1];
    };
    const result = `refs/meta/results/build/${oidOf(1)}`;
    const store = (n: number): RefEdit => ({ name: result, expect: 'any', to: oidOf(n) });
    expect(await pushedBy(null, [store(2)])).toBe('a dispatcher, with the result of an effect');
    expect(await pushedBy('token:runner', [store(3)])).toBe('token:runner, with the result of an effect');
    const branch: RefEdit = { name: 'refs/heads/main', expect: 'any', to: oidOf(4) };
    expect(await pushedBy('user:ada', [branch, store(4)])).toBe('user:ada');
    expect(await pushedBy('operator', [{ name: result, expect: oidOf(4), to: null }])).toBe('operator');
  });

  it('gives the record as git would have it', async () => {
    const [pushId] = await makePushes('show/raw', 1);
    const { stdout } = await cli('op', 'show', '--raw', pushId!);
    const hash = execFileSync('git', ['hash-object', '-t', 'commit', '--stdin'], { input: stdout });
    expect(String(hash)).toBe(`${pushId}\n`);
  });

  it('lets nothing in a record touch the terminal, and says when it is bad', async () => {
    const [pushId] = await makePushes('show/evil', 1);
    await sql`update ${table('op_record')} set signer = ${'a\u001b[31mb\u202ec\nd'}, body = body || 'x' where push_id = ${pushId}`.execute(
      database.db,
    );
    await sql`update ${table('reflog')} set name = ${'refs/heads/\u001b[2Jx'} where push_id = ${pushId} and name like 'refs/heads/%'`.execute(
      database.db,
    );
    const { stdout } = await cli('op', 'show', pushId!);
    expect(stdout).not.toMatch(/[\u001b\u202e]/);
    expect(stdout).toContain('pushed by    abc d\n');
    expect(stdout).toContain('record       bad: the bytes do not hash to the push id\n');
    expect(stdout).toContain('refs/heads/x');
  });

  it.each([['HEAD'], ['abc'], ['00000000000'], ['f'.repeat(65)]])('refuses %s', async (push) => {
    const result = await cli('op', 'show', push);
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
  });
});

describe('sluice key', () => {
  it('lists keys and retires one', async () => {
    const old = await newKey();
    await registerServerKey(database.db, old);
    const listed = (await cli('key', 'list')).stdout.split('\n').find((row) => row.endsWith(old.publicKey));
    expect(listed).toMatch(/^SHA256:\S+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  in use +ssh-ed25519 /);
    expect(await cli('key', 'retire', old.fingerprint)).toMatchObject({ code: 0, stderr: '' });
    const line = (await cli('key', 'list')).stdout.split('\n').find((row) => row.startsWith(old.fingerprint));
    expect(line).not.toContain('in use');
    const again = await cli('key', 'retire', old.fingerprint);
    expect(again.code).toBe(1);
    expect(again.stderr).toMatch(/^sluice: there is no key SHA256:.* in use\n {2}next: /);
  });
});
