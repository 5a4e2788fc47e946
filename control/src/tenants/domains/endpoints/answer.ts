import type { CustomDomain } from "@svc/proto";
import { loadCertificateFacts } from "../../../fleet/certificates/facts.ts";
import type { Config } from "../../../settings/settings.ts";
import { databaseClock } from "../../../stores/db/clock.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Domain } from "../../../stores/db/tables.ts";
import { certificateView } from "../certificate.ts";
import { edgeAddresses } from "../edge-addresses.ts";
import { listRedirects } from "../store.ts";
import { domainView } from "../view.ts";

/** Rows of a project as their owner sees them. */
export async function viewsOf(db: Db, config: Config, rows: readonly Domain[]) {
  const place = { host: config.domains.edgeHost, addresses: await edgeAddresses(db, config.domains) };
  const certificates = await certificatesOf(db, config, rows);
  const redirects = await listRedirects(db, rows);
  return rows.map((row) => domainView(row, place, redirects.get(row.id) ?? null, certificates.get(row.id) ?? null));
}

/** By id of the domain; none where the installation gets none. */
export async function certificatesOf(
  db: Db,
  { acme }: Config,
  rows: readonly Domain[],
): Promise<Map<string, NonNullable<CustomDomain["certificate"]>>> {
  if (acme === null) return new Map();
  const now = await databaseClock(db);
  const facts = await loadCertificateFacts(
    db,
    rows.map(({ domain }) => domain),
  );
  return new Map(rows.map((row) => [row.id, certificateView(row, facts.get(row.domain) ?? null, now)]));
}

/** What every change answers. */
export async function changed(db: Db, config: Config, row: Domain) {
  const [domain] = await viewsOf(db, config, [row]);
  if (domain === undefined) throw new Error("a domain has no view");
  return { domain, queued: true as const };
}
