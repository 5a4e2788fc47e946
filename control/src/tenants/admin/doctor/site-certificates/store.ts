import { loadCertificateFacts } from "../../../../fleet/certificates/facts.ts";
import { loadWanted } from "../../../../fleet/certificates/wanted.ts";
import type { AcmeConfig } from "../../../../settings/settings.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { SiteCertificate } from "./rules.ts";

/** Of all names that edges are to serve over TLS, what ends first coming first. Null: nobody gets certificates. */
export async function readSiteCertificates(
  db: Db,
  acme: Pick<AcmeConfig, "wildcard"> | null,
): Promise<SiteCertificate[] | null> {
  if (acme === null) return null;
  const wanted = await loadWanted(db, acme.wildcard?.name ?? null);
  const facts = await loadCertificateFacts(db, [...wanted.keys()]);
  const endMs = ({ held }: SiteCertificate): number => held?.notAfter.getTime() ?? 0;
  return [...facts.values()]
    .map((each) => ({ ...each, isTwin: wanted.get(each.name)?.twinOf != null }))
    .sort((a, b) => endMs(a) - endMs(b));
}
