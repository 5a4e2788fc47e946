import { randomUUID } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { domainReply } from "@svc/proto";
import { proofName, proofValue } from "@svc/proto/domains";
import type pg from "pg";
import type { Cluster } from "../cluster.ts";
import { succeeded } from "../support/api.ts";
import { deploy } from "../support/deploy.ts";
import { connectPlatformDatabase } from "../support/platform-database.ts";
import { rssMb, untilServed } from "./deploys.ts";
import type { Row } from "./table.ts";

/** The API looks at domains of a project six times a minute when it is asked to. */
const firstsMax = 5;
const together = Number(process.env["BENCH_DOMAINS"] ?? 1_000);
/** When the one with a single domain comes: the others are well under way. */
const lateMs = 5_000;
const lookMs = 500;
const allMs = 15 * 60_000;

/**
 * How long domains take from the record in DNS: one after another until they answer over HTTPS, and very many at once until the edge has
 * their certificates, with a user who comes after them with one. The platform is one with a CA and a DNS server of its own.
 */
export async function domainsServed(cluster: Cluster, times: number): Promise<Row[]> {
  const firsts = await firstAnswers(cluster, Math.min(times, firstsMax));
  return [
    {
      name: "TXT record there and looked at, to 200 over HTTPS",
      unit: "ms",
      samples: firsts,
      floor: null,
      aim: { text: "<= 60 s", met: (value) => value <= 60_000 },
    },
    ...(await manyAtOnce(cluster)),
  ];
}

async function firstAnswers(cluster: Cluster, times: number): Promise<number[]> {
  const { project, url } = await deploy(cluster, await cluster.exampleDir("static"));
  const site = new URL(url);
  const path = `/projects/${project.id}/domains`;
  const samples: number[] = [];
  for (let round = 0; round < times; round += 1) {
    const domain = `first-${round}.example`;
    const { domain: added } = domainReply.parse(await succeeded(cluster, "POST", path, { domain }));
    const { txtName = "", txtValue = "" } = added.records ?? {};
    const from = performance.now();
    await appendFile(cluster.platform.dnsRecords ?? "", `${txtName} ${txtValue}\n`);
    await succeeded(cluster, "POST", `${path}/${added.id}/verify`);
    samples.push(await untilServed(`https://${domain}:${site.port}/`, from, () => true));
    await succeeded(cluster, "DELETE", `${path}/${added.id}`);
  }
  return samples;
}

/** Milliseconds since the first of them were added. */
interface Issued {
  domain: string;
  provenMs: number;
  issuedMs: number;
}

async function manyAtOnce(cluster: Cluster): Promise<Row[]> {
  await using client = await connectPlatformDatabase(cluster.platform);
  const memoryMb: number[] = [];
  const look = async () => {
    const { pid } = cluster.platform.program("control");
    if (pid !== null) memoryMb.push(await rssMb(pid));
    await makeRoom(client);
  };
  await look();
  // Each below a name of its own, as domains of many customers are, and no apex, which would bring its www along.
  const many = Array.from({ length: together }, (_, n) => `shop.many-${n}.example`);
  const single = "shop.single.example";
  const from = performance.now();
  const manySince = await attach(cluster, client, many);
  let singleSince: Date | null = null;
  for (let left = together + 1; left > 0; await delay(lookMs)) {
    if (performance.now() - from > allMs) throw new Error(`${left} domains have no certificate in time`);
    if (singleSince === null && performance.now() - from >= lateMs)
      singleSince = await attach(cluster, client, [single]);
    await look();
    left = together + 1 - (await listIssued(client, manySince)).length;
  }
  const issued = await listIssued(client, manySince);
  const waits = issued.filter(({ domain }) => domain !== single).map(({ issuedMs }) => issuedMs);
  const own = issued.find(({ domain }) => domain === single) ?? { provenMs: Number.NaN, issuedMs: Number.NaN };
  const addedMs = (singleSince?.getTime() ?? 0) - manySince.getTime();
  const sorted = waits.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  const last = Math.max(...waits);
  const row = (name: string, samples: number[], unit: Row["unit"] = "ms"): Row => ({
    ...{ name, unit, samples, floor: null, aim: null },
  });
  const aim = { text: "a tenth of what all take", met: (value: number) => value <= last / 10 };
  const [before = Number.NaN] = memoryMb;
  return [
    row(`${together} domains at once, until all proofs are found`, [
      Math.max(...issued.filter(({ domain }) => domain !== single).map(({ provenMs }) => provenMs)),
    ]),
    row("the same, to the certificate: p50", [at(0.5)]),
    row("the same: p99", [at(0.99)]),
    row("the same: the last one", [last]),
    { ...row("one domain of somebody else, added 5 s after these, to its proof", [own.provenMs - addedMs]), aim },
    { ...row("the same, from there to its certificate", [own.issuedMs - own.provenMs]), aim },
    row("memory of control before these", [before], "MB"),
    row("memory of control while these get certificates, most", [Math.max(...memoryMb)], "MB"),
  ];
}

/**
 * Domains of a project of a user of their own, with their proof in DNS and somebody to look at it. As the API does it, but all in one moment
 * and whatever the plan says. Returns which moment, on the clock of the database.
 */
async function attach(cluster: Cluster, client: pg.Client, domains: readonly string[]): Promise<Date> {
  const claims = domains.map((domain) => ({ id: randomUUID(), domain, token: randomUUID() }));
  const lines = claims.map(({ domain, token }) => `${proofName(domain)} ${proofValue(token)}\n`);
  await appendFile(cluster.platform.dnsRecords ?? "", lines.join(""));
  const owner = randomUUID();
  const project = randomUUID();
  await client.query("begin");
  await client.query(`insert into auth."user" (id, name, email, "emailVerified") values ($1, 'Owner', $2, true)`, [
    owner,
    `${owner}@shop.test`,
  ]);
  await client.query(`insert into project (id, owner_id, name, slug, type) values ($1, $2, 'Shop', $3, 'static')`, [
    project,
    owner,
    `shop-${project.slice(0, 8)}`,
  ]);
  await client.query(
    `insert into custom_domain (id, project_id, domain, status, routing_target, txt_token, created_at, verify_until)
      select id, $1, domain, 'pending', 'production', token, now(), now() + interval '48 hours'
      from json_to_recordset($2) as claim (id uuid, domain text, token text)`,
    [project, JSON.stringify(claims)],
  );
  await client.query(
    `insert into work_item (kind, key, payload)
      select 'domain', 'domain/' || id, jsonb_build_object('domainId', id) from custom_domain where project_id = $1`,
    [project],
  );
  await client.query("select pg_notify('svc_work', 'domain')");
  const { rows } = await client.query("select clock_timestamp() as at");
  await client.query("commit");
  return (rows as [{ at: Date }])[0].at;
}

/** Puts past orders out of the windows of the CAs' limits: with these, 150 of the thousand would be all for three hours. */
async function makeRoom(client: pg.Client): Promise<void> {
  await client.query("update acme_order set at = at - interval '4 hours' where at > now() - interval '3 hours'");
}

/** Of those that `attach` added, what there is a certificate for. */
async function listIssued(client: pg.Client, since: Date): Promise<Issued[]> {
  const { rows } = await client.query(
    `select name as domain, since, verified_at as proven from certificate join custom_domain on domain = name
      where state = 'issued' and (name like 'shop.many-%' or name like 'shop.single.%')`,
  );
  return (rows as { domain: string; since: Date; proven: Date }[]).map((row) => ({
    domain: row.domain,
    provenMs: row.proven.getTime() - since.getTime(),
    issuedMs: row.since.getTime() - since.getTime(),
  }));
}
