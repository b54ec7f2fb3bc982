import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commitFileAt, commitFiles, signingWith, type SigningKey } from '@sluice/testkit';
import { beforeEach, describe, expect, test } from 'vitest';
import { useRemote } from './use-remote.ts';

const remote = useRemote();
const cli = (...args: string[]) => remote.cli(...args);

let ada: SigningKey;
let bob: SigningKey;

beforeEach(() => {
  [ada, bob] = [remote.key('ada'), remote.key('bob')];
});

const pub = ({ file }: SigningKey): string => `${file}.pub`;

/** Makes ada the first member, who signs from then on. */
async function begin(): Promise<void> {
  expect(await cli('member', 'add', 'ada', '--key', pub(ada), '--role', 'admin')).toMatchObject({ code: 0 });
  await remote.signWith(ada);
}

/** Runs a command that has to fail, and to leave the remote as it was. */
async function refused(...args: string[]): Promise<string> {
  const before = await remote.refs();
  const { code, stdout, stderr } = await cli(...args);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
  expect(await remote.refs()).toEqual(before);
  return stderr;
}

test('from a repository that is new to two members, whose pushes are then taken signed', async () => {
  expect((await cli('member', 'list')).stderr).toContain('is made by the first push');
  const added = await cli('member', 'add', 'ada', '--key', pub(ada), '--role', 'admin');
  expect(added).toMatchObject({ code: 0, stderr: '' });
  expect(added.stdout).toMatch(
    /^remote: push [0-9a-f]{40}\nadded ada on origin: an admin with 1 key \([0-9a-f]{12}\)\nFrom now on/,
  );
  expect(await remote.read('refs/meta/members/ada', 'member.yaml')).toBe(
    `role: admin\nkeys:\n  - ${ada.publicKey}`,
  );

  await remote.signWith(ada);
  const second = await cli('member', 'add', 'bob', '--key', pub(bob));
  expect(second.stdout).toMatch(/^remote: push .*\nadded bob on origin: a writer with 1 key \(/);
  expect(await cli('member', 'list')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /^NAME +ROLE +STATE +KEY +COMMENT\nada +admin +active +SHA256:\S{43} +ada\nbob +writer +active +SHA256:\S{43} +bob\n$/,
    ),
  });
  await remote.clone([...signingWith(bob), 'push', '--quiet', '--signed', 'origin', 'main']);
  expect(await remote.clone(['for-each-ref', '--format=%(refname)'])).toBe(
    'refs/heads/main\nrefs/remotes/origin/main',
  );
});

test('a list of many members takes as many git processes as a list of one', async () => {
  await begin();
  const started = join(remote.folder, 'started');
  const PATH = remote.pathWith('git', `echo "$1" >> ${started}`);
  const list = async (): Promise<{ members: number; processes: string[] }> => {
    rmSync(started, { force: true });
    const { code, stdout } = await remote.cliWith({ PATH }, 'member', 'list');
    expect(code).toBe(0);
    const processes = readFileSync(started, 'utf8').trimEnd().split('\n');
    return { members: stdout.trimEnd().split('\n').length - 1, processes };
  };
  const one = await list();
  expect(one).toMatchObject({ members: 1, processes: expect.arrayContaining(['ls-remote', 'fetch']) });
  const refs: string[] = [];
  for (let count = 0; count < 4; count += 1) {
    const ref = `refs/meta/members/m${count}`;
    const key = remote.key(`m${count}`);
    await commitFileAt(remote.clone, ref, 'member.yaml', `role: writer\nkeys: [${key.publicKey}]\n`);
    refs.push(ref);
  }
  await remote.clone(['push', '--quiet', '--signed', 'origin', ...refs]);
  expect(await list()).toEqual({ members: 5, processes: one.processes });
});

test('a partial clone fetches members as a whole, and not each by itself', async () => {
  // Such as a server whose repositories were adopted lets people make.
  const bare = join(remote.folder, 'bare.git');
  await remote.clone(['init', '--quiet', '--bare', '--initial-branch=main', bare]);
  await remote.clone([`--git-dir=${bare}`, 'config', 'uploadpack.allowFilter', 'true']);
  const refs = ['refs/meta/members/ada', 'refs/meta/members/bob'];
  for (const [index, { publicKey }] of [ada, bob].entries())
    await commitFileAt(remote.clone, refs[index]!, 'member.yaml', `role: admin\nkeys: [${publicKey}]\n`);
  await remote.clone(['push', '--quiet', bare, 'main', ...refs]);
  const partial = join(remote.folder, 'partial');
  await remote.clone(['clone', '--quiet', '--filter=blob:none', `file://${bare}`, partial]);
  const trace = join(remote.folder, 'trace');
  const PATH = remote.pathWith('git', `cd ${partial}; [ "$1" != cat-file ] || export GIT_TRACE=${trace}`);
  const { code, stdout } = await remote.cliWith({ PATH }, 'member', 'list');
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^ada .*\nbob .*\n$/m)]);
  expect(readFileSync(trace, 'utf8')).toMatch(/built-in: git cat-file --batch\n/);
  expect(readFileSync(trace, 'utf8')).not.toContain('run_command');
});

test('a member gets another key and another role, and what else its file says stays', async () => {
  await begin();
  const text = `# at the desk\nrole: writer\nkeys:\n  - ${bob.publicKey} # old`;
  await commitFileAt(remote.clone, 'refs/meta/members/bob', 'member.yaml', text);
  await remote.clone(['push', '--quiet', '--signed', 'origin', 'refs/meta/members/bob']);
  const laptop = remote.key('laptop');
  expect((await cli('member', 'add', 'bob', '--key', pub(laptop))).stdout).toContain(
    'changed bob on origin: a writer with 2 keys (',
  );
  expect((await cli('member', 'add', 'bob', '--role', 'worker')).stdout).toContain('a worker with 2 keys');
  expect(await remote.read('refs/meta/members/bob', 'member.yaml')).toBe(
    `# at the desk\nrole: worker\nkeys:\n  - ${bob.publicKey} # old\n  - ${laptop.publicKey}`,
  );
  expect(await remote.clone(['log', '--format=%s', 'FETCH_HEAD'])).toBe(
    'Change member bob\nChange member bob\nSet refs/meta/members/bob',
  );
  expect(await cli('member', 'add', 'bob', '--key', pub(laptop), '--role', 'worker')).toEqual({
    code: 0,
    stderr: '',
    stdout: 'bob on origin is already a worker with 2 keys; nothing was pushed\n',
  });
});

describe('sluice member revoke', () => {
  test('leaves a member that is revoked, whose name and key nobody has again', async () => {
    await begin();
    await cli('member', 'add', 'bob', '--key', pub(bob));
    const revoked = await cli('member', 'revoke', 'bob');
    expect(revoked.stdout).toMatch(/^remote: push .*\nrevoked bob on origin \([0-9a-f]{12}\)\n$/);
    expect(await remote.read('refs/meta/members/bob', 'member.yaml')).toContain('\nrevoked: true');
    expect((await cli('member', 'list')).stdout).toMatch(/^bob +writer +revoked +SHA256:/m);
    expect((await cli('member', 'revoke', 'bob')).stdout).toBe(
      'bob on origin is already revoked; nothing was pushed\n',
    );
    const signed = await remote.clone.attempt([...signingWith(bob), 'push', '--signed', 'origin', 'main']);
    expect(signed.stderr).toContain('signed with a key of bob, who was revoked');
    expect(await refused('member', 'add', 'bob', '--key', pub(remote.key('new')))).toContain(
      'bob was revoked, and nobody comes back under the same name',
    );
    expect(await refused('member', 'add', 'bob2', '--key', pub(bob))).toMatch(
      /expected a key of bob2, got SHA256:\S+ of bob, who was revoked/,
    );
  });

  test('takes one key away, by its file or fingerprint, but never the last one', async () => {
    await begin();
    const [laptop, phone] = [remote.key('laptop'), remote.key('phone')];
    for (const key of [bob, laptop, phone]) await cli('member', 'add', 'bob', '--key', pub(key));
    const shown = (await cli('member', 'list')).stdout;
    const fingerprint = /(SHA256:\S+) +phone/.exec(shown)?.[1] ?? '';
    expect((await cli('member', 'revoke', 'bob', '--key', fingerprint)).stdout).toContain(
      `took ${fingerprint} from bob on origin: a writer with 2 keys (`,
    );
    expect((await cli('member', 'revoke', 'bob', '--key', pub(bob))).stdout).toContain(
      'a writer with 1 key (',
    );
    expect(await remote.read('refs/meta/members/bob', 'member.yaml')).toBe(
      `role: writer\nkeys:\n  - ${laptop.publicKey}`,
    );
    expect(await remote.clone(['log', '-1', '--format=%s', 'FETCH_HEAD'])).toBe('Take a key from member bob');
    expect(await refused('member', 'revoke', 'bob', '--key', fingerprint)).toContain('expected a key of bob');
    expect(await refused('member', 'revoke', 'bob', '--key', pub(laptop))).toContain('bob has no other key');
  });

  test('is refused for the only admin, and so is making a writer of one', async () => {
    await begin();
    await cli('member', 'add', 'bob', '--key', pub(bob));
    const expected = 'expected another admin besides ada, got none';
    expect(await refused('member', 'revoke', 'ada')).toContain(expected);
    expect(await refused('member', 'add', 'ada', '--role', 'writer')).toContain(expected);
    await cli('member', 'add', 'bob', '--role', 'admin');
    expect((await cli('member', 'revoke', 'ada')).stdout).toContain('revoked ada on origin');
  });
});

test('the first member has to be an admin, which is said before anything is pushed', async () => {
  await remote.clone(['push', '--quiet', 'origin', 'main']);
  expect((await cli('member', 'list')).stdout).toMatch(/^no members on origin, .* sluice member add /);
  expect(await refused('member', 'add', 'bob', '--key', pub(bob))).toContain(
    'expected an admin as the first member of origin, got the writer bob',
  );
});

test('the first member is pushed unsigned, though git signs everything', async () => {
  await remote.clone(['push', '--quiet', 'origin', 'main']);
  await remote.signWith(ada);
  await remote.clone(['config', 'push.gpgSign', 'true']);
  expect(await cli('member', 'add', 'ada', '--key', pub(ada), '--role', 'admin')).toMatchObject({ code: 0 });
  expect(await cli('member', 'add', 'bob', '--key', pub(bob))).toMatchObject({ code: 0 });
});

test('whoever cannot sign is told how, and whoever may not is told by the server', async () => {
  await cli('member', 'add', 'ada', '--key', pub(ada), '--role', 'admin');
  expect(await refused('member', 'add', 'bob', '--key', pub(bob))).toMatch(
    /expected git to sign with an SSH key, .* got gpg.format unset; nothing was pushed\n {2}next: .*git config gpg.format ssh/,
  );
  await remote.clone(['config', 'gpg.format', 'ssh']);
  expect(await refused('member', 'add', 'bob', '--key', pub(bob))).toContain('got no user.signingKey');
  await remote.signWith(bob);
  expect(await refused('member', 'add', 'bob', '--key', pub(bob))).toContain(
    'origin refused the change: the push is signed with a key of nobody who is a member here',
  );
  writeFileSync(join(remote.clone.folder, 'effect.yaml'), 'on: [refs/heads/*]\nrun: make\n');
  expect(await refused('effect', 'add', 'ci', 'effect.yaml')).toMatch(
    /expected a signed push: .*\n {2}next: Nothing was changed. Have git sign .*push.gpgSign if-asked/,
  );
});

test.each([
  [
    'a private key',
    () => ada.file,
    /expected a public key, got a private one; nothing was pushed\n.*\.pub; ssh-keygen -y/,
  ],
  [
    'several keys',
    () => written(`${ada.publicKey}\n\n${bob.publicKey}\n`),
    /expected one public key, got 2 lines/,
  ],
  ['nothing', () => written('\n# a comment\n'), /expected a public key, got nothing/],
  [
    'a key of an unknown type',
    () => written('ssh-dss AAAA me\n'),
    /expected a public key of the type ssh-ed25519, .*, got "ssh-dss"/,
  ],
  [
    'a certificate',
    () => written('ssh-ed25519-cert-v01@openssh.com AAAA me\n'),
    /got "ssh-ed25519-cert-v01@openssh.com"/,
  ],
  [
    'half a key',
    () => written(ada.publicKey.slice(0, 40)),
    /expected a whole public key of the type ssh-ed25519/,
  ],
  ['no file', () => 'nowhere.pub', /cannot read nowhere.pub: there is no such file\n.*public key/],
])('as a key, %s is refused before anything is pushed', async (_, file, message) => {
  await remote.clone(['push', '--quiet', 'origin', 'main']);
  const said = await refused('member', 'add', 'ada', '--role', 'admin', '--key', file());
  expect(said).toMatch(message);
  expect(said).not.toContain('BEGIN');
});

function written(text: string): string {
  const file = join(remote.folder, 'given.pub');
  writeFileSync(file, text);
  return file;
}

test('a key of another member, a name that is none and a member that is none are refused', async () => {
  await begin();
  expect(await refused('member', 'add', 'bob', '--key', pub(ada))).toMatch(
    /expected a key of bob, got SHA256:\S+, which is that of ada/,
  );
  expect(await refused('member', 'add', 'a/b', '--key', pub(bob))).toContain(
    "expected a member's name of letters",
  );
  expect(await refused('member', 'add', 'bob', '--role', 'writer')).toContain(
    'expected --key with the public key of bob, who is no member of origin yet, got none',
  );
  expect(await refused('member', 'revoke', 'bob')).toContain('the remote origin has no member called bob');
  expect((await cli('member', 'add', 'bob', '--role', 'owner')).code).toBe(2);
});

/** When: before a program runs that the command needs, by one of its arguments. */
const INTERRUPTED = [
  ['before the push', 'git', '$1', 'push'],
  ['while the push is signed', 'ssh-keygen', '$2', 'sign'],
] as const;

test.each(INTERRUPTED)(
  'what another admin changes %s is never overwritten',
  async (_, program, argument, is) => {
    await begin();
    await cli('member', 'add', 'bob', '--key', pub(bob));
    const { clone } = remote;
    await clone(['fetch', '--quiet', 'origin', 'refs/meta/members/bob']);
    const theirs = await commitFileAt(
      clone,
      'refs/theirs',
      'member.yaml',
      `role: worker\nkeys: [${bob.publicKey}]\n`,
    );
    const tree = await clone(['rev-parse', `${theirs}^{tree}`]);
    const after = await clone(['commit-tree', tree, '-p', 'FETCH_HEAD', '-m', 'Theirs']);
    const push = `git -C ${clone.folder} push --quiet --signed origin ${after}:refs/meta/members/bob`;
    const PATH = remote.pathWith(program, `[ "${argument}" != ${is} ] || ${push} >/dev/null 2>&1`);
    const late = await remote.cliWith({ PATH }, 'member', 'add', 'bob', '--role', 'admin');
    expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('run it again') });
    expect((await remote.refs())['refs/meta/members/bob']).toBe(after);
    expect(late.stderr).toContain('bob was changed on origin by someone else meanwhile');
    expect((await cli('member', 'add', 'bob', '--role', 'admin')).stdout).toContain('an admin with 1 key');
  },
);

test('members that cannot be read are listed as such, and nothing is changed beside them', async () => {
  await begin();
  // On a server that takes anything.
  const bare = join(remote.folder, 'bare.git');
  await remote.clone(['init', '--quiet', '--bare', bare]);
  await commitFileAt(remote.clone, 'refs/meta/members/odd', 'member.yaml', 'role: owner\nkeys: []\n');
  await remote.clone(['push', '--quiet', bare, 'refs/meta/members/odd']);
  await commitFiles(remote.clone, { 'b.txt': 'two' });
  expect((await cli('member', 'list', '--remote', bare)).stdout).toMatch(
    /^odd +- +malformed: member.yaml:1:7: /m,
  );
  expect((await cli('member', 'add', 'bob', '--key', pub(bob), '--remote', bare)).stderr).toMatch(
    /nobody can push to .*, since the member odd cannot be read: member.yaml:1:7: .*\n {2}next: An admin of the server/,
  );
});
