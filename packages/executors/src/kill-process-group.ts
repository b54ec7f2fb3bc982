/** Kills a process group by its leader's pid. Not an error if it is gone. */
export function killProcessGroup(leader: number | undefined): void {
  // 0 and 1 would mean this process's own group and every process there is.
  if (leader === undefined || leader <= 1) return;
  try {
    process.kill(-leader, 'SIGKILL');
  } catch {
    // No such group: all of it has ended.
  }
}
