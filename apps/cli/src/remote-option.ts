import { Option } from 'commander';

/** The repository that a command is about, by a remote of the clone or a URL. */
export function remoteOption(): Option {
  return new Option('--remote <remote>', 'name or URL of the repository').default('origin');
}
