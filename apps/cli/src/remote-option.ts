import { Option } from 'commander';
import { shownRemote } from './without-credentials.ts';

const DEFAULT_REMOTE = 'origin';

/** The repository that a command is about, by a remote of the clone or a URL. */
export function remoteOption(): Option {
  return new Option('--remote <remote>', 'name or URL of the repository').default(DEFAULT_REMOTE);
}

/** The command that a person is told to run next, about the same repository. */
export function onRemote(command: string, remote: string): string {
  return remote === DEFAULT_REMOTE ? command : `${command} --remote ${shownRemote(remote)}`;
}
