import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, it } from 'vitest';
import { removeFolder } from './remove-folder.ts';

const temp = useTempFolder();

it('removes folders that are nested deeper than a path can say, unreadable ones among them', async () => {
  const folder = join(temp.path, 'run');
  await mkdir(folder);
  // 100 folders of 100 characters: 10,000 bytes, where a path may have 4,096.
  const dive = `i=0; while [ $i -lt 100 ]; do mkdir ${'d'.repeat(100)} && cd -P ${'d'.repeat(100)} || exit 1; i=$((i+1)); done; touch file; chmod 0 .`;
  execFileSync('sh', ['-c', dive], { cwd: folder });
  await removeFolder(folder);
  expect(existsSync(folder)).toBe(false);
});

it('removes links, and leaves alone what they lead to', async () => {
  const [folder, other] = [join(temp.path, 'run'), join(temp.path, 'other')];
  await mkdir(folder);
  await mkdir(join(folder, 'locked'));
  await mkdir(other);
  writeFileSync(join(other, 'file'), 'kept', { mode: 0o400 });
  symlinkSync(other, join(folder, 'locked', 'link'));
  execFileSync('chmod', ['0', join(folder, 'locked')]);
  await removeFolder(folder);
  expect(existsSync(folder)).toBe(false);
  expect(readFileSync(join(other, 'file'), 'utf8')).toBe('kept');
  expect(lstatSync(join(other, 'file')).mode & 0o777).toBe(0o400);
});
