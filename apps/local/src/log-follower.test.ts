import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { LogFollower } from './log-follower.ts';

const folder = useTempFolder();

test('the tail is what the services said, without what turbo and pnpm add', () => {
  const path = join(folder.path, 'services.log');
  writeFileSync(
    path,
    [
      '@sluice/pusher:start: cache bypass, force executing feec4e8f22fff2ae',
      '@sluice/pusher:start: $ node src/main.ts',
      '@sluice/pusher:start: One setting is wrong:',
      '@sluice/pusher:start:   SLUICE_IDLE_MS: expected more',
      '@sluice/pusher:start: [ELIFECYCLE] Command failed with exit code 1.',
      '@sluice/dispatcher:start: {"level":"info","service":"dispatcher","event":"shutdown_started"}',
      '@sluice/dispatcher:start: {"level":"error","service":"dispatcher","event":"broken"}',
      '@sluice/pusher#start:  ERROR  command (/x/apps/pusher) /x/pnpm run start exited (1)',
      '',
      ' Tasks:    0 successful, 2 total',
      'Cached:    0 cached, 2 total',
      '  Time:    5.708s ',
      'Failed:    @sluice/pusher#start',
      '',
      ' ERROR  run failed: command  exited (1)',
      '',
    ].join('\n'),
  );
  using follower = new LogFollower(path);
  expect(follower.read()).toHaveLength(2);
  expect(follower.tail().split('\n')).toEqual([
    '@sluice/pusher:start: One setting is wrong:',
    '@sluice/pusher:start:   SLUICE_IDLE_MS: expected more',
    '@sluice/dispatcher:start: {"level":"error","service":"dispatcher","event":"broken"}',
  ]);
});

test('nothing that a service wrote moves a cursor or passes for another line', () => {
  const path = join(folder.path, 'services.log');
  const message = '\u001b]0;title\u0007\u001b[2Jgone\nnpm start: all is well \u202e';
  const event = { level: 'warn', service: 'pusher', event: 'git_\u009bfailed', message };
  writeFileSync(path, `pusher: ${JSON.stringify(event)}\npusher: \u001b[1A\u009b2K broken\n`);
  using follower = new LogFollower(path);
  expect(follower.read()).toEqual([
    {
      level: 'warn',
      service: 'pusher',
      event: 'git_\\u{9b}failed',
      message: '\\u{1b}]0;title\\u{7}\\u{1b}[2Jgone\\u{a}npm start: all is well \\u{202e}',
    },
  ]);
  expect(follower.tail().split('\n')).toEqual([
    expect.not.stringMatching(/[\p{Cc}\p{Cf}]/u),
    'pusher: \\u{1b}[1A\\u{9b}2K broken',
  ]);
});
