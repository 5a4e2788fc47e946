import { createHash } from "node:crypto";
import { fromJsonString } from "@bufbuild/protobuf";
import { type Route, RouteSchema } from "@svc/proto/edge";
import { z } from "zod";
import type { Log } from "./log.ts";
import { routeLine, type Table, tableText } from "./table.ts";
import type { TableFile } from "./table-file.ts";

/** The table that was served last. */
export interface KeptTable {
  table: Table;
  /** False: some hosts serve an older route than this generation's, so it is no base for changes. */
  whole: boolean;
}

export interface TableStore extends AsyncDisposable {
  /** Null when there is none, or what is there is damaged; that is then put aside. */
  load(): Promise<KeptTable | null>;
  /**
   * On disk when it returns. What costs is the change, not the table.
   *
   * @param changed hosts whose route may be another than when it was saved last
   */
  save(kept: KeptTable, changed: Iterable<string>): Promise<void>;
}

export const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex");

const wholeNumber = z.string().regex(/^\d{1,20}$/);
const about = { clusterEpoch: wholeNumber, generation: wholeNumber, whole: z.boolean() };
const header = z.object({ format: z.literal(1), ...about, count: z.int().min(0), digest: z.string() });
const change = z.object({ ...about, upserts: z.array(z.string()), removed: z.array(z.string()) });

/** Changes are gathered behind the table until they are as long as it, and at least so long. */
const changesBytesMin = 1024 ** 2;

/**
 * A line about a table, a line per route, and then a line per change since. Each change
 * begins with its own digest, so that one that was being written during a crash is recognised: it was
 * never reported, and is left out.
 */
export function createTableStore(file: TableFile, log: Log): TableStore {
  /** How much may still be added; null when the next save has to write the whole table. */
  let room: number | null = null;

  async function writeWhole(kept: KeptTable): Promise<void> {
    room = null;
    const text = encodeWhole(kept);
    await file.replace(text);
    room = Math.max(changesBytesMin, text.length);
  }

  return {
    async load() {
      try {
        const text = await file.read();
        return text === null ? null : decode(text);
      } catch (err) {
        log.error({ err }, "the kept route table is damaged");
        await file.putAside();
        return null;
      }
    },
    async save(kept, changed) {
      const line = encodeChange(kept, changed);
      if (room === null || line.length > room) return writeWhole(kept);
      const left = room - line.length;
      // Until all of it is on disk it is unknown how the file ends.
      room = null;
      await file.append(line);
      await file.sync();
      room = left;
    },
    [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
  };
}

const aboutOf = ({ table, whole }: KeptTable) => ({
  clusterEpoch: String(table.clusterEpoch),
  generation: String(table.generation),
  whole,
});

function encodeWhole(kept: KeptTable): string {
  const { routes } = kept.table;
  const text = tableText(routes);
  const first: z.infer<typeof header> = { format: 1, ...aboutOf(kept), count: routes.size, digest: digestOf(text) };
  return `${JSON.stringify(first)}\n${text}${routes.size === 0 ? "" : "\n"}`;
}

function encodeChange(kept: KeptTable, changed: Iterable<string>): string {
  const upserts: string[] = [];
  const removed: string[] = [];
  for (const host of changed) {
    const route = kept.table.routes.get(host);
    if (route === undefined) removed.push(host);
    else upserts.push(routeLine(route));
  }
  const text = JSON.stringify({ ...aboutOf(kept), upserts, removed } satisfies z.infer<typeof change>);
  return `${digestOf(text)} ${text}\n`;
}

function decode(content: string): KeptTable {
  const [first = "", ...lines] = content.split("\n");
  const { count, digest, ...start } = header.parse(JSON.parse(first));
  const routeLines = lines.splice(0, count);
  if (routeLines.length !== count || digestOf(routeLines.join("\n")) !== digest) {
    throw new Error("the digest does not fit the routes");
  }
  const routes = new Map(routeLines.map((line) => routeOf(line)).map((route) => [route.host, route]));
  let latest: z.infer<z.ZodObject<typeof about>> = start;
  for (const line of lines) {
    const text = line.slice(65);
    if (line.slice(0, 64) !== digestOf(text)) break;
    const { upserts, removed, ...after } = change.parse(JSON.parse(text));
    for (const host of removed) routes.delete(host);
    for (const route of upserts.map(routeOf)) routes.set(route.host, route);
    latest = after;
  }
  const { clusterEpoch, generation, whole } = latest;
  return { table: { clusterEpoch: BigInt(clusterEpoch), generation: BigInt(generation), routes }, whole };
}

const routeOf = (line: string): Route => fromJsonString(RouteSchema, line);
