import { join } from 'node:path';
import { expect, it } from 'vitest';
import { absolutePaths } from './absolute-paths.ts';
import { PROJECT_ROOT } from './project-root.ts';

it('makes paths mean the same wherever a program starts, and takes an empty one for unset', () => {
  const inProject = { SLUICE_DATA_DIR: join(PROJECT_ROOT, '.sluice') };
  expect(absolutePaths({})).toEqual(inProject);
  expect(absolutePaths({ SLUICE_DATA_DIR: '', SLUICE_KEY_FILE: '' })).toEqual(inProject);
  expect(absolutePaths({ SLUICE_DATA_DIR: 'data', SLUICE_KEY_FILE: '../key' })).toEqual({
    SLUICE_DATA_DIR: join(process.cwd(), 'data'),
    SLUICE_KEY_FILE: join(process.cwd(), '../key'),
  });
  expect(absolutePaths({ SLUICE_DATA_DIR: '/srv/data', SLUICE_KEY_FILE: '/srv/key' })).toEqual({
    SLUICE_DATA_DIR: '/srv/data',
    SLUICE_KEY_FILE: '/srv/key',
  });
});
