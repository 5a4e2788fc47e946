import { loadCertificateFacts } from "../../../../fleet/certificates/facts.ts";
import { loadWanted } from "../../../../fleet/certificates/wanted.ts";
import type { FleetView } from "../../../../fleet/cluster/facts.ts";
import { edgesInRotation } from "../../../../fleet/routes/progress.ts";
import type { AcmeConfig } from "../../../../settings/settings.ts";
import { databaseClock } from "../../../../stores/db/clock.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import type { IssuingEdge, SiteCertificate } from "./rules.ts";

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

/** Edges usually answer within a second. */
const lateMs = 60_000;

/** Those that CAs may meet. Null: nobody gets certificates. */
export async function readIssuingEdges(
  db: Db,
  fleet: Pick<FleetView, "edgeApplied" | "isConnected">,
  acme: AcmeConfig | null,
): Promise<IssuingEdge[] | null> {
  if (acme === null) return null;
  const [ids, now] = await Promise.all([edgesInRotation(db), databaseClock(db)]);
  const [nodes, challenges] = await Promise.all([
    db
      .selectFrom("node")
      .select(["id", "name"])
      .where("id", "=", (where) => where.fn.any(where.val(ids)))
      .orderBy("name")
      .execute(),
    db
      .selectFrom("acme_challenge")
      .innerJoin("certificate", "certificate.name", "acme_challenge.name")
      .select("token")
      .where("kind", "=", "http-01")
      .where("remove_after", "is", null)
      .where("state", "=", "challenge_published")
      .where("since", "<", new Date(now.getTime() - lateMs))
      .execute(),
  ]);
  return nodes.map(({ id, name }) => {
    const applied = fleet.edgeApplied(id);
    const answered = applied?.challenges;
    return {
      ...{ name, isThere: fleet.isConnected(id) && answered !== undefined },
      lacks: challenges.filter(({ token }) => answered?.includes(token) !== true).length,
      problem: applied?.certificateProblem ?? null,
    };
  });
}
