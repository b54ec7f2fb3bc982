export { ADOPTED, adoptedAs } from '../git/adopted-folder.ts';
export { requireGit } from '../git/require-git.ts';
export { writeAdoptedConfig } from './adopted-config.ts';
export { createHookLog } from './hook-log.ts';
export { readHookSettings, type HookSettings } from './hook-settings.ts';
export { openAdopted, type AdoptedRepository } from './open-adopted.ts';
export { refreshAdopted } from './refresh-adopted.ts';
export { runHook } from './run-hook.ts';
