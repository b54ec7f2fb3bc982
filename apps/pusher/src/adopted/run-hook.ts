import { isUnavailable, SluiceError } from '@sluice/db';
import { SettingsError } from '@sluice/service-kit';
import { adoptedAs } from '../git/adopted-folder.ts';
import { HttpError } from '../http-error.ts';
import { refuseAll } from '../push/push-gate.ts';
import type { Decision } from '../push/receive-pack.ts';
import { answerProcReceive, type Conversation, type HandedOver } from '../wire/proc-receive.ts';
import { oneLine } from '../wire/report-status.ts';
import { createHookLog } from './hook-log.ts';
import { readHookSettings } from './hook-settings.ts';
import { openAdopted } from './open-adopted.ts';
import { takePushNote } from './push-note.ts';
import { NOT_INSTALLED, takePush } from './take-push.ts';

type Env = Readonly<Record<string, string | undefined>>;

export interface HookOptions extends Pick<Conversation, 'input' | 'write'> {
  /** The bare repository itself, not a link to it. */
  folder: string;
  /** Process id of the git that started this hook. */
  gitPid: number;
  /** The environment that git gave the hook. */
  env: Env;
  /** The same with all settings in it. */
  readSettings: () => Promise<Env>;
  /** Shows a line to whoever pushes. */
  show: (line: string) => void;
}

/** What git runs as `proc-receive` in an adopted repository: takes one push, and fails closed. */
export async function runHook(options: HookOptions): Promise<void> {
  await answerProcReceive({
    input: options.input,
    write: options.write,
    decide: async (push) => {
      const { reports, lines } = await decide(options, push);
      for (const line of lines) options.show(oneLine(line));
      return reports;
    },
  });
}

async function decide(options: HookOptions, push: HandedOver): Promise<Decision> {
  const { folder, env } = options;
  const log = createHookLog(folder);
  try {
    const note = await takePushNote(folder, options.gitPid);
    const repoId = await adoptedAs(folder);
    if (repoId === null) return { reports: refuseAll(push.commands, NOT_INSTALLED), lines: [] };
    const settings = readHookSettings(await options.readSettings());
    await using adopted = await openAdopted({ repoId, folder }, settings, log);
    return await takePush(adopted, { ...push, note, env });
  } catch (error) {
    log.error({ event: 'push_failed', error });
    return { reports: refuseAll(push.commands, reasonFor(error)), lines: [] };
  }
}

/** Before the commit everything that fails leaves nothing behind. */
function reasonFor(error: unknown): string {
  if (isUnavailable(error))
    return 'the database is not available; nothing was changed, try again in a moment';
  if (error instanceof HttpError) return error.message;
  if (error instanceof SluiceError || error instanceof SettingsError)
    return `Sluice is not set up right on this server: ${error.message.replaceAll(/\s*\n\s*/g, ' ')}`;
  return "internal error; nothing was changed, and the repository's sluice/log has the cause";
}
