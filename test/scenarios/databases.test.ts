import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { succeeded, takePlan } from "../support/api.ts";
import { deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { notesApps, writeNotesApp } from "../support/notes-app.ts";
import { connectPlatformDatabase, passNight } from "../support/platform-database.ts";
import { waitFor } from "../support/wait-for.ts";

/** A managed database from its first day to its last on the whole platform, by the command line alone. */

let cluster: Cluster;
let dir: string;
beforeAll(async () => {
  // Two nodes: an app and its database may be on different ones.
  cluster = await startCluster({ agents: 2, control: { SVC_DRAIN_SECONDS: "0.25" } });
  dir = await mkdtemp(join(tmpdir(), "svc-databases-"));
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const failure = z.looseObject({ error: z.looseObject({ code: z.string() }) });

describe.each(notesApps)("a database on $engine", ({ engine, driver, ask, table }) => {
  const slug = `notes-${engine}`;
  const project = ["--project", slug] as const;
  let cwd: string;
  let url: string;

  /** What a command prints as JSON; fails with all that it said. */
  async function svc(...args: string[]): Promise<Record<string, unknown>> {
    const result = await cluster.cli([...args, ...project, "--json"], { cwd });
    if (result.exitCode !== 0) throw new Error(`svc ${args.join(" ")}: ${result.stdout}${result.stderr}`);
    return result.json();
  }
  const query = async (sql: string) => (await svc("db", "query", sql))["rows"];
  const refusal = async (...args: string[]) => {
    const result = await cluster.cli([...args, ...project, "--json"], { cwd });
    expect(result.exitCode).not.toBe(0);
    return failure.parse(result.json()).error.code;
  };
  const visit = async (path: string) => {
    const reply = await edgeFetch(`${url}${path}`);
    return `${reply.status} ${await reply.text()}`;
  };

  test("is there with the first deploy, for the release command and for the app", async () => {
    cwd = join(dir, slug);
    await writeNotesApp(cwd, { slug, engine, driver, ask, table });
    ({ url } = await deploy(cluster, cwd));
    expect(await visit("/write")).toBe("200 1");
    expect(await visit("/write")).toBe("200 2");
    expect(await svc("db", "status")).toMatchObject({ enabled: true, status: "ready", engine });
    expect(await query("select text from notes order by id")).toEqual([["a note"], ["a note"]]);
  });

  test("loses nothing with a redeploy", async () => {
    await deploy(cluster, cwd);
    expect(await visit("/")).toBe("200 2");
  });

  test("has a backup, which comes back as the file that it is", async () => {
    const { backupId } = z
      .looseObject({ backupId: z.string(), status: z.literal("complete") })
      .parse(await svc("db", "backup", "create"));
    const file = join(cwd, "backup.sql.gz");
    await svc("db", "backup", "download", backupId, "--output", file);
    expect(gunzipSync(await readFile(file)).toString()).toContain("a note");
    await query("delete from notes");
    expect(await visit("/")).toBe("200 0");
    await svc("db", "restore", file, "--yes");
    expect(await visit("/")).toBe("200 2");
  });

  test("takes another password at once, and an app that is deployed again has it", async () => {
    await svc("db", "rotate-credentials", "--yes");
    await waitFor("the app to be refused", 60_000, async () => (await visit("/")).startsWith("500"));
    await deploy(cluster, cwd);
    expect(await visit("/")).toBe("200 2");
  });

  test("can only be read from the night on in which it is larger than its plan allows, and keeps another password", async () => {
    await using store = await connectPlatformDatabase(cluster.platform);
    const plan = async (slug: string) => {
      await takePlan(cluster, slug);
      await passNight(store);
    };
    const common = { maxDatabases: 5, maxProjects: 50, maxBackups: 5, maxDeploysPerHour: 100 };
    // Fewer connections, too: the server has to start with less than it was told before.
    const small = { slug: `small-${engine}`, name: "Small", dbSizeMb: 0, dbConnectionLimit: 5 };
    const large = { slug: `large-${engine}`, name: "Large", dbSizeMb: 500, dbConnectionLimit: 20 };
    for (const each of [small, large]) await succeeded(cluster, "POST", "/admin/plans", { ...common, ...each });

    await plan(small.slug);
    await waitFor("writes to be refused", 120_000, async () => /^500 .*read-only/.test(await visit("/write")));
    const kept = await waitFor("reads to go on", 120_000, async () => {
      const [status, count] = (await visit("/")).split(" ");
      return status === "200" && Number(count);
    });
    expect(await svc("db", "usage")).toMatchObject({
      readOnly: true,
      warning: expect.stringContaining("only be read"),
    });
    await svc("db", "backup", "create");

    await svc("db", "rotate-credentials", "--yes");
    await waitFor("the app's password to be refused", 120_000, async () =>
      /^500 .*(password authentication failed|Access denied)/.test(await visit("/")),
    );
    await waitFor(
      "the owner to read",
      120_000,
      async () => String(await query("select count(*) from notes")) === `${kept}`,
    );
    await refusal("db", "query", "delete from notes");
    expect(String(await query("select count(*) from notes"))).toBe(`${kept}`);

    await plan(large.slug);
    await waitFor("writes to go on", 120_000, async () => {
      await query("insert into notes (text) values ('another')");
      return true;
    });
    await deploy(cluster, cwd);
    expect(await visit("/")).toBe(`200 ${kept + 1}`);
  });

  test("goes when its owner says so, and its backup stays", async () => {
    await svc("db", "disable", "--yes");
    await waitFor("the branch to be absent", 120_000, async () => {
      const { status } = await svc("db", "status");
      return status === null;
    });
    expect(await refusal("db", "query", "select 1")).toBe("CLOUD_NOT_FOUND");
    expect(await svc("db", "backup", "list")).toMatchObject({
      backups: [{ status: "complete" }, { status: "complete" }],
    });
    expect(await visit("/")).toMatch(/^500 /);
  });
});
