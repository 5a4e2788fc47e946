import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fromJsonString } from "@bufbuild/protobuf";
import { RouteSchema } from "@svc/proto/edge";
import { z } from "zod";
import { hasCode, writeDurably } from "./durable-file.ts";
import type { Log } from "./log.ts";
import { type Table, tableText } from "./table.ts";

/** The table that was served last. */
export interface KeptTable {
  table: Table;
  /** False: some hosts served an older route than this generation's, so it is no base for changes. */
  whole: boolean;
}

export interface TableStore {
  /** Null when there is none, or what is there is damaged; that is then put aside. */
  load(): Promise<KeptTable | null>;
  /** On disk when it returns. */
  save(kept: KeptTable): Promise<void>;
}

export const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex");

const wholeNumber = z.string().regex(/^\d{1,20}$/);
const header = z.object({
  format: z.literal(1),
  clusterEpoch: wholeNumber,
  generation: wholeNumber,
  whole: z.boolean(),
  digest: z.string(),
});

/** One file in `dir`: a line about the table, then a line per route. */
export function createTableStore(dir: string, log: Log): TableStore {
  const path = join(dir, "table.jsonl");
  return {
    async load() {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      for (const name of await readdir(dir)) if (name.endsWith(".tmp")) await rm(join(dir, name), { force: true });
      try {
        return decode(await readFile(path, "utf8"));
      } catch (cause) {
        if (hasCode(cause, "ENOENT")) return null;
        log.error({ path, err: cause }, "the kept route table is damaged");
        await rename(path, `${path}.damaged`);
        return null;
      }
    },
    save: (kept) => writeDurably(path, encode(kept)),
  };
}

function encode({ table, whole }: KeptTable): string {
  const text = tableText(table.routes);
  const about: z.infer<typeof header> = {
    format: 1,
    clusterEpoch: String(table.clusterEpoch),
    generation: String(table.generation),
    whole,
    digest: digestOf(text),
  };
  return `${JSON.stringify(about)}\n${text}`;
}

function decode(content: string): KeptTable {
  const end = content.indexOf("\n");
  const about = header.parse(JSON.parse(content.slice(0, end)));
  const text = content.slice(end + 1);
  if (digestOf(text) !== about.digest) throw new Error("the digest does not fit the routes");
  const routes = text === "" ? [] : text.split("\n").map((line) => fromJsonString(RouteSchema, line));
  return {
    table: {
      clusterEpoch: BigInt(about.clusterEpoch),
      generation: BigInt(about.generation),
      routes: new Map(routes.map((route) => [route.host, route])),
    },
    whole: about.whole,
  };
}
