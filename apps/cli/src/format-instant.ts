/** An instant as every command shows it: UTC to the second, such as `2026-05-03 02:01:00Z`. PostgreSQL reads it too. */
export function formatInstant(instant: Date): string {
  return `${instant.toISOString().slice(0, 19).replace('T', ' ')}Z`;
}
