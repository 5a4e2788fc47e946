import { join } from "node:path";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import type { DeployedExample } from "./examples.ts";
import { repositoryRoot } from "./paths.ts";
import type { Platform } from "./platform.ts";

/** What info.json tells scripts about a running platform. */
const schema = z.object({
  apiUrl: z.string(),
  /** Of every replica of control. */
  apiUrls: z.array(z.string()),
  edgeHttp: z.string(),
  edgeHttps: z.string(),
  contentDomain: z.string(),
  admin: z.object({ email: z.string(), password: z.string() }),
  /** Directory with each mail that local mode would send, as JSON. */
  outbox: z.string(),
  /** With `--acme`: the file of the texts that the local DNS server tells. */
  dnsRecords: z.string().nullable().default(null),
  /** host:port of the artifact registry. */
  registry: z.string(),
  examples: z.array(z.object({ name: z.string(), url: z.string() })),
});
export type Info = z.infer<typeof schema>;

export async function writeInfo(platform: Platform, examples: DeployedExample[]): Promise<Info> {
  const { apiUrl, apiUrls, edgeHttp, edgeHttps, contentDomain, admin, layout, registry, dnsRecords } = platform;
  const info = {
    apiUrl,
    apiUrls,
    edgeHttp,
    edgeHttps,
    contentDomain,
    admin,
    outbox: layout.outbox,
    dnsRecords,
    registry: registry.host,
    examples,
  };
  await writeDurably(layout.info, `${JSON.stringify(info, null, 2)}\n`);
  return info;
}

/** Null when no platform is ready. */
export async function readInfo(path: string): Promise<Info | null> {
  const text = await readIfThere(path);
  return text === null ? null : schema.parse(JSON.parse(text));
}

type Row = [string, string];

const svc = join(repositoryRoot, "node_modules/.bin/svc");

/** The table that is shown when everything serves. */
export function renderInfo(info: Info): string {
  const rows: Row[] = [
    ["API", info.apiUrls.join("  ")],
    ...(info.apiUrls.length === 1
      ? []
      : [["", "any of them may die, and any member of etcd; Postgres and the registry are single"] satisfies Row]),
    ["Sites", `${info.edgeHttp}  ${info.edgeHttps}  (*.${info.contentDomain})`],
    ["Sign in", `${info.admin.email}  ${info.admin.password}`],
    ...info.examples.map(({ name, url }): Row => [`Example ${name}`, url]),
    ["Mail", info.outbox],
    ...(info.dnsRecords === null
      ? []
      : [
          ["TXT records", `${info.dnsRecords}  (a line each: name text)`] satisfies Row,
          [
            "",
            "every name leads to 127.0.0.1 by the local DNS server, and certificates are of a CA that nobody trusts",
          ] satisfies Row,
        ]),
    // By its path: elsewhere `npx svc` is a program of somebody else.
    ["Command line", `${svc} login --api-url ${info.apiUrl}`],
    ...(info.apiUrls.length === 1
      ? []
      : [["", `any of these addresses will do: ${info.apiUrls.join("  ")}`] satisfies Row]),
    ["", `then, in a directory with svc.yml: ${svc} deploy`],
  ];
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`).join("\n");
}
