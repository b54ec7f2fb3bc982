import { commitFileAt, commitFiles, gitIn } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { preamble, reportOf, sendPush } from './raw-push.ts';
import { COMPANY, useGovernedRepo } from './use-governed-repo.ts';

const repo = useGovernedRepo();

test('one ref too far refuses the whole push, and each ref says why', async () => {
  await repo.setPolicy(
    'rules:\n  refs/heads/release/*: { roles: [admin] }\n  refs/frozen/**: { roles: [] }\n',
  );
  const writer = await repo.at(['write']);
  const both = ['main:refs/heads/release/1', 'main:refs/heads/topic'];
  const forAdmins = 'expected a token with admin: refs/heads/release/* is for admins';
  for (const args of [both, ['--atomic', ...both]]) {
    await repo.expectRefused(writer, args, {
      'refs/heads/release/1': forAdmins,
      'refs/heads/topic': COMPANY,
    });
  }
  await repo.expectRefused(await repo.at('operator'), ['main:refs/frozen/a'], {
    'refs/frozen/a': 'nobody may push here: refs/frozen/** has no roles',
  });
  await repo.work(['push', '--quiet', writer, 'main:refs/heads/topic', 'main:refs/heads/release']);
});

test('what needs no objects is judged before git reads any', async () => {
  await repo.setPolicy('rules: { refs/tags/*: { force: false, delete: false } }\n');
  const { username, password, origin, pathname } = new URL(await repo.at(['write']));
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const old = repo.commit;
  for (const [command, reason] of [
    [
      { new: old, name: 'refs/meta/effects/x' },
      'expected a token with admin: refs/meta/effects/** is for admins',
    ],
    [{ old, name: 'refs/tags/a' }, 'may not be deleted: refs/tags/* has delete: false'],
    [
      { old, new: 'a'.repeat(40), name: 'refs/tags/a' },
      'expected a fast-forward: refs/tags/* has force: false',
    ],
  ] as const) {
    const body = Buffer.concat([preamble([command]), Buffer.from('this is no pack')]);
    const report = reportOf(await sendPush(origin + pathname, body, { authorization }));
    expect(report).toMatch(/^000eunpack ok\n/);
    expect(report).toContain(`ng ${command.name} ${reason}\n`);
  }
});

test('definitions are for admins, unless a rule names them', async () => {
  const writer = await repo.at(['write']);
  const push = ['main:refs/heads/topic', 'refs/meta/effects/ci:refs/meta/effects/copy'];
  const refused = {
    'refs/meta/effects/copy': 'expected a token with admin: refs/meta/effects/** is for admins',
    'refs/heads/topic': COMPANY,
  };
  await repo.expectRefused(writer, push, refused);
  // However much else it opens, and however it is spelled.
  await repo.setPolicy(
    'rules:\n' +
      [
        'refs/**',
        'refs/*/effects/copy',
        'refs/meta/**',
        'refs/meta/*/copy',
        'refs/meta/eff**',
        '"refs/**/copy"',
      ]
        .map((pattern) => `  ${pattern}: { roles: [admin, writer, worker] }\n`)
        .join(''),
  );
  await repo.expectRefused(writer, push, refused);
  await repo.work(['push', '--quiet', writer, 'main:refs/meta/others/a']);
  await repo.setPolicy('rules: { refs/meta/effects/copy: { roles: [writer] } }\n');
  await repo.expectRefused(writer, [':refs/meta/effects/ci'], {
    'refs/meta/effects/ci': 'expected a token with admin: refs/meta/effects/** is for admins',
  });
  await repo.work(['push', '--quiet', writer, ...push]);
});

test('where force is not allowed a ref only moves forward, by whatever option', async () => {
  const writer = await repo.at(['write']);
  await repo.setPolicy('rules: { refs/heads/*: { force: false }, refs/tags/*: { force: false } }\n');
  const { work } = repo;
  const second = await commitFiles(work, { 'a.txt': 'two' });
  await work(['push', '--quiet', writer, 'main', 'main:refs/heads/deep/x', 'main:refs/tags/v1']);
  await work(['commit', '--quiet', '--amend', '-m', 'rewritten']);
  const rewritten = await work(['rev-parse', 'main']);
  // With the content of one that is, the new commit would be a descendant.
  const descendant = await work(['commit-tree', '-p', second, '-m', 'forged', `${second}^{tree}`]);
  await work(['push', '--quiet', writer, `${descendant}:refs/replace/${rewritten}`]);

  const reason = 'expected a fast-forward: refs/heads/* has force: false';
  for (const option of ['--force', `--force-with-lease=main:${second}`]) {
    await repo.expectRefused(writer, [option, 'main', 'main:refs/heads/other'], {
      'refs/heads/main': reason,
      'refs/heads/other': COMPANY,
    });
  }
  await repo.expectRefused(writer, [`+${repo.commit}:refs/heads/main`], { 'refs/heads/main': reason });
  const stale = await work.attempt(['push', `--force-with-lease=main:${repo.commit}`, writer, 'main']);
  expect(stale.stderr).toContain('stale info');
  // A tag that exists does not move at all.
  await commitFiles(work, { 'a.txt': 'three' });
  await work(['push', '--quiet', writer, '+main:refs/heads/deep/x']);
  await repo.expectRefused(writer, ['+main:refs/tags/v1'], {
    'refs/tags/v1': 'expected a fast-forward: refs/tags/* has force: false',
  });
  await work(['reset', '--quiet', '--hard', second]);
  const third = await commitFiles(work, { 'a.txt': 'four' });
  await work(['push', '--quiet', writer, 'main', 'main:refs/tags/v2', ':refs/tags/v1']);
  expect(await repo.refs()).toMatchObject({ 'refs/heads/main': third, 'refs/tags/v2': third });
});

test('moves between tags, trees and commits count as forced', async () => {
  const { work } = repo;
  await repo.setPolicy('rules: { refs/x/*: { force: false } }\n');
  const writer = await repo.at(['write']);
  const second = await commitFiles(work, { 'a.txt': 'two' });
  await work(['tag', '-a', '-m', 'first', 'one', repo.commit]);
  await work(['push', '--quiet', writer, 'one:refs/x/tag', `${second}^{tree}:refs/x/tree`]);
  await repo.expectRefused(writer, [`+${second}:refs/x/tree`], {
    'refs/x/tree': 'expected a fast-forward: refs/x/* has force: false',
  });
  await repo.expectRefused(writer, [`+${second}^{tree}:refs/x/tag`], {
    'refs/x/tag': 'expected a fast-forward: refs/x/* has force: false',
  });
  await work(['push', '--quiet', writer, `+${second}:refs/x/tag`]);
});

test('what may not be deleted stays, also when a mirror lacks it', async () => {
  await repo.setPolicy('rules: { refs/heads/main: { delete: false } }\n');
  const writer = await repo.at(['write']);
  await repo.work(['push', '--quiet', writer, 'main:refs/heads/topic']);
  const reason = 'may not be deleted: refs/heads/main has delete: false';
  await repo.expectRefused(writer, [':refs/heads/main', ':refs/heads/topic'], {
    'refs/heads/main': reason,
    'refs/heads/topic': COMPANY,
  });
  const forAdmins = (what: string): string => `expected a token with admin: refs/meta/${what} is for admins`;
  const { work } = repo;
  await work(['branch', '--quiet', '-m', 'main', 'trunk']);
  for (const ref of ['refs/meta/config', 'refs/meta/effects/ci']) await work(['update-ref', '-d', ref]);
  await repo.expectRefused(writer, ['--mirror'], {
    'refs/heads/main': reason,
    'refs/heads/topic': COMPANY,
    'refs/heads/trunk': COMPANY,
    'refs/meta/config': forAdmins('config'),
    'refs/meta/effects/ci': forAdmins('effects/**'),
  });
  await repo.work(['push', '--quiet', writer, ':refs/heads/topic']);
});

test('a worker pushes what a policy has for workers, if it may read as well, and makes no repository', async () => {
  const worker = await repo.at(['read', 'worker']);
  await repo.expectRefused(worker, ['main:refs/builds/1'], {
    'refs/builds/1': 'expected a token with write: refs/** is for writers',
  });
  await repo.setPolicy('rules: { refs/builds/*: { roles: [worker] } }\n');
  await repo.expectRefused(worker, ['main:refs/builds/1', 'main:refs/heads/topic'], {
    'refs/builds/1': COMPANY,
    'refs/heads/topic': 'expected a token with write: refs/** is for writers',
  });
  await repo.expectRefused(await repo.at(['admin']), ['main:refs/builds/1'], {
    'refs/builds/1': 'expected a token with worker: refs/builds/* is for workers',
  });
  const blind = await repo.work.attempt(['push', await repo.at(['worker']), 'main:refs/builds/1']);
  expect(blind.stderr).toContain('expected a token with write');
  await repo.work(['push', '--quiet', worker, 'main:refs/builds/1']);

  const elsewhere = worker.replace(repo.repoId, 'governed/new');
  expect((await repo.work.attempt(['push', elsewhere, 'main'])).stderr).toContain(
    'expected a token with write',
  );
  const made = repo.pusher.database.db.selectFrom('repo').selectAll().where('repo_id', '=', 'governed/new');
  expect(await made.execute()).toEqual([]);
});

test('a policy that means nothing is refused with the place, and one that can be read is in force at once', async () => {
  const admin = await repo.at(['admin']);
  for (const [yaml, reason] of [
    ['rules:\n  refs/heads/*:\n    force: never\n', 'policy.yaml:3:12: expected true or false, got "never"'],
    ['attestation:\n  refs/**: off\n', 'policy.yaml:1:1: expected attestation in a rule'],
    [
      'rules: { refs/meta/config: { roles: [] } }\n',
      'policy.yaml:1:37: expected admin among the roles for "refs/meta/config": else nobody could take this policy back',
    ],
    ['rules: {', 'policy.yaml:1:9: expected YAML 1.2'],
  ]) {
    await commitFileAt(repo.work, 'refs/meta/config', 'policy.yaml', yaml!);
    const refused = await repo.work.attempt(['push', admin, 'refs/meta/config']);
    expect(refused.stderr).toContain(reason);
  }
  expect(Object.keys(await repo.refs())).toEqual(['refs/heads/main', 'refs/meta/effects/ci']);

  await commitFileAt(
    repo.work,
    'refs/meta/config',
    'policy.yaml',
    'rules: { refs/**: { roles: [admin] } }\n',
  );
  // A push is judged by the policy that was there before it.
  await repo.work(['push', '--quiet', admin, 'refs/meta/config', 'main:refs/heads/topic']);
  await repo.expectRefused(await repo.at(['write']), ['main:refs/heads/more'], {
    'refs/heads/more': 'expected a token with admin: refs/** is for admins',
  });
  await repo.work(['push', '--quiet', admin, ':refs/meta/config']);
  await repo.work(['push', '--quiet', await repo.at(['write']), 'main:refs/heads/more']);
});

test('a policy that cannot be read any more lets nobody in but an admin of the server', async () => {
  await repo.setPolicy('rules: { refs/heads/main: { force: false } }\n');
  await repo.damage((db) =>
    db
      .updateTable('ref')
      .set({ oid: repo.commit })
      .where('repo_id', '=', repo.repoId)
      .where('name', '=', 'refs/meta/config')
      .execute(),
  );
  const reason =
    'nobody can push here: refs/meta/config: expected a file policy.yaml in the commit, got none. An admin of the server has to repair refs/meta/members/ or refs/meta/config';
  await repo.expectRefused(await repo.at(['admin']), ['main:refs/heads/x', ':refs/meta/config'], {
    'refs/heads/x': reason,
    'refs/meta/config': reason,
  });
  const operator = await repo.at('operator');
  await repo.expectRefused(operator, ['main:refs/heads/x'], { 'refs/heads/x': reason });
  await repo.work(['push', '--quiet', operator, ':refs/meta/config']);
  await repo.work(['push', '--quiet', await repo.at(['write']), 'main:refs/heads/x']);
  await gitIn(repo.pusher.folder)(['clone', '--quiet', operator, 'clone']);
});
