import { join } from 'node:path';
import { commitFileAt } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { useRemote } from './use-remote.ts';

const remote = useRemote();
const cli = (...args: string[]) => remote.cli(...args);
const CONFIG = 'refs/meta/config';

const policy = (): Promise<string> => remote.read(CONFIG, 'policy.yaml');

test('a rule is set, changed and taken away, each shown with what comes of it, and in force', async () => {
  const set = await cli('policy', 'set', 'refs/heads/main', '--force', 'no');
  expect(set).toMatchObject({ code: 0, stderr: '' });
  expect(set.stdout).toMatch(
    /^remote: push .*\nchanged the policy of origin \([0-9a-f]{12}\)\n\nrefs\/heads\/main +BEFORE +NOW\nforce +- +false\n\nPATTERN +ROLES/,
  );
  expect(set.stdout).toMatch(/^refs\/heads\/main +- +false +- +-$/m);
  expect(set.stdout).toContain('attestation counts from the first member on; there is none yet\n');
  expect(await policy()).toBe('rules:\n  refs/heads/main: { force: false }');

  const changed = await cli('policy', 'set', 'refs/heads/main', '--roles', 'nobody', '--delete', 'no');
  expect(changed.stdout).toMatch(/\nrefs\/heads\/main +BEFORE +NOW\nroles +- +nobody\ndelete +- +false\n\n/);
  expect(changed.stdout).toContain((await cli('policy', 'show')).stdout);
  const pushed = await remote.clone.attempt(['push', 'origin', 'main']);
  expect(pushed.stderr).toContain('nobody may push here: refs/heads/main has no roles');

  const unset = await cli('policy', 'unset', 'refs/heads/main');
  expect(unset.stdout).toMatch(/BEFORE +NOW\nroles +nobody +-\nforce +false +-\ndelete +false +-\n\n/);
  await remote.clone(['push', '--quiet', 'origin', 'main']);
  expect(await remote.clone(['log', '--format=%s', 'FETCH_HEAD', '-1'])).toBe(
    'Set the rule for refs/heads/main',
  );
});

test('the rest of the policy stays as it is written, and a rule for a pattern that has one everywhere comes in front', async () => {
  const text = '# ours\nrules:\n  # nobody rewrites it\n  refs/heads/main: { force: false } # since 2020\n';
  await commitFileAt(remote.clone, CONFIG, 'policy.yaml', text);
  await remote.clone(['push', '--quiet', 'origin', CONFIG]);
  const set = await cli('policy', 'set', 'refs/**', '--delete', 'no', '--attestation', 'off');
  expect(set.stdout).toMatch(
    /\nrefs\/\*\* +BEFORE +NOW\ndelete +true +false\nattestation +optional +off\n\n/,
  );
  expect(await policy()).toBe(`${text}  refs/**: { delete: false, attestation: off }`);
  expect(await cli('policy', 'set', 'refs/**', '--delete', 'no')).toEqual({
    code: 0,
    stderr: '',
    stdout: 'the rule for refs/** on origin says so already; nothing was pushed\n',
  });
  await cli('policy', 'unset', 'refs/**');
  expect(`${await policy()}\n`).toBe(text);
});

test('what the server would refuse is refused before anything is pushed, and so is what changes nothing', async () => {
  await cli('policy', 'set', 'refs/heads/main', '--force', 'no');
  const before = await remote.refs();
  for (const [args, message] of [
    [
      ['set', 'heads/main', '--force', 'no'],
      'expected a full ref pattern such as refs/heads/*, got "heads/main"',
    ],
    [['set', CONFIG, '--roles', 'worker'], 'expected admin among the roles for "refs/meta/config"'],
    [['set', 'refs/meta/results/**', '--force', 'no'], 'expected no rule for refs/meta/results/'],
    [['set', 'refs/heads/x'], 'expected some of --roles, --force, --delete and --attestation, got none'],
    [['unset', 'refs/heads/x'], 'the policy of origin has no rule for refs/heads/x'],
    [['unset', 'refs/**'], 'those that hold everywhere are changed with sluice policy set'],
  ] as const) {
    const { code, stdout, stderr } = await cli('policy', ...args);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
    expect(stderr).toMatch(/\n {2}next: [^\n]+\n$/);
  }
  for (const args of [
    ['--force', 'true'],
    ['--roles', 'admin,owner'],
    ['--attestation', 'always'],
  ])
    expect(await cli('policy', 'set', 'refs/heads/x', ...args)).toMatchObject({ code: 2, stdout: '' });
  expect(await remote.refs()).toEqual(before);
});

test('with members it is signed, and what another admin changes meanwhile is never overwritten', async () => {
  const ada = remote.key('ada');
  await cli('member', 'add', 'ada', '--key', `${ada.file}.pub`, '--role', 'admin');
  expect((await cli('policy', 'set', 'refs/heads/main', '--force', 'no')).stderr).toContain(
    'expected git to sign with an SSH key, since refs/meta/config has attestation: required',
  );
  await remote.signWith(ada);
  expect(await cli('policy', 'set', 'refs/heads/main', '--force', 'no')).toMatchObject({ code: 0 });

  const { clone } = remote;
  await clone(['fetch', '--quiet', 'origin', CONFIG]);
  const current = await clone(['rev-parse', 'FETCH_HEAD']);
  const theirs = await commitFileAt(
    clone,
    'refs/theirs',
    'policy.yaml',
    'rules: { refs/tags/*: { force: false } }\n',
  );
  const tree = await clone(['rev-parse', `${theirs}^{tree}`]);
  const after = await clone(['commit-tree', tree, '-p', current, '-m', 'Theirs']);
  const push = `git -C ${clone.folder} push --quiet --signed origin ${after}:${CONFIG} >/dev/null 2>&1`;
  const PATH = remote.pathWith('git', `[ "$1" != push ] || ${push}`);
  const late = await remote.cliWith({ PATH }, 'policy', 'unset', 'refs/heads/main');
  expect(late).toMatchObject({ code: 1, stdout: '' });
  expect(late.stderr).toMatch(
    /^sluice: the policy was changed on origin by someone else meanwhile\n {2}next: Look at it with sluice policy show, then run it again\.\n$/,
  );
  expect((await remote.refs())[CONFIG]).toBe(after);
});

test.each([
  ['no admin can sign', (key: string) => `role: admin\nkeys: [${key.slice(0, key.lastIndexOf(' ') - 4)}]\n`],
  ['a member cannot be read', () => 'role: owner\nkeys: []\n'],
])('where %s, no signature is asked for: an admin of the server repairs it unsigned', async (_, member) => {
  // On a server that takes anything: one of ours would not take such a member any more.
  const bare = join(remote.folder, 'bare.git');
  await remote.clone(['init', '--quiet', '--bare', bare]);
  const ref = 'refs/meta/members/ada';
  await commitFileAt(remote.clone, ref, 'member.yaml', member(remote.key('ada').publicKey));
  await remote.clone(['push', '--quiet', bare, ref]);
  const set = ['policy', 'set', 'refs/heads/main', '--force', 'no', '--remote', bare];
  expect(await cli(...set)).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringContaining('changed the policy of '),
  });
  expect(await remote.clone(['--git-dir', bare, 'show', `${CONFIG}:policy.yaml`])).toBe(
    'rules:\n  refs/heads/main: { force: false }',
  );
});
