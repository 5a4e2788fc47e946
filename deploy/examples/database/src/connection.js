/** Where the database is. The platform sets it for release commands and containers once `database.enabled` is in svc.yml. */
export function databaseUrl() {
  const url = process.env.DATABASE_URL;
  if (!url) throw new Error("DATABASE_URL is not set: this app needs a Postgres database");
  return url;
}
