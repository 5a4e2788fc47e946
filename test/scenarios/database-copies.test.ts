import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { adminDatabaseReply, databaseVolumesReply } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { notesApps, writeNotesApp } from "../support/notes-app.ts";
import { waitFor } from "../support/wait-for.ts";

/** What keeps the data of a database when its machine does not, on the whole platform. */

let cluster: Cluster;
let dir: string;
beforeAll(async () => {
  cluster = await startCluster({ agents: 2, control: { SVC_DRAIN_SECONDS: "0.25" } });
  dir = await mkdtemp(join(tmpdir(), "svc-copies-"));
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

describe.each(notesApps)("the copy of a database on $engine", (app) => {
  const slug = `kept-${app.engine}`;
  const branch = `${slug}/production`;
  let cwd: string;
  let url: string;

  /** What an operator's command prints as JSON; fails with all that it said. */
  async function svc(...args: string[]): Promise<Record<string, unknown>> {
    const result = await cluster.cli([...args, "--json"], { cwd });
    if (result.exitCode !== 0) throw new Error(`svc ${args.join(" ")}: ${result.stdout}${result.stderr}`);
    return result.json();
  }
  const show = async () => adminDatabaseReply.parse(await svc("admin", "db", "show", branch)).database;
  const visit = async (path: string) => {
    const reply = await edgeFetch(`${url}${path}`);
    return `${reply.status} ${await reply.text()}`;
  };
  /** Until all that was acknowledged by now is in the copy on the other machine. */
  const covered = () => {
    const since = Date.now();
    return waitFor("the copy to have everything", 300_000, async () => {
      const { copies, node } = await show();
      return copies.some(
        (copy) =>
          copy.state === "following" &&
          copy.node?.id !== node?.id &&
          copy.coveredAt !== null &&
          Date.parse(copy.coveredAt) > since,
      );
    });
  };

  test("follows it on the other machine, and takes its place where an operator moves it", async () => {
    cwd = join(dir, slug);
    await writeNotesApp(cwd, { slug, ...app });
    ({ url } = await deploy(cluster, cwd));
    expect(await visit("/write")).toBe("200 1");
    await covered();
    const before = await show();
    await svc("admin", "db", "move", branch);
    const after = await show();
    expect(after.node?.id).not.toBe(before.node?.id);
    expect(after).toMatchObject({ status: "ready", generation: before.generation + 1 });
    await waitFor("the app to read", 60_000, async () => (await visit("/")) === "200 1");
    expect(await visit("/write")).toBe("200 2");
  });

  test("brings back what was there at a moment before it was deleted", async () => {
    await covered();
    const at = new Date().toISOString();
    await covered();
    await svc("db", "query", "drop table notes", "--project", slug);
    expect(await visit("/")).toMatch(/^500/);
    await svc("admin", "db", "restore", branch, "--at", at, "--yes");
    await waitFor("the app to read", 60_000, async () => (await visit("/")) === "200 2");
  });

  test("comes back with its data and its address when it was dropped", async () => {
    const { id } = await show();
    const volumes = async () => databaseVolumesReply.parse(await svc("admin", "db", "volumes"));
    await svc("db", "disable", "--project", slug, "--channel", "production", "--yes");
    await waitFor("it to be gone", 120_000, async () => (await volumes()).dropped.some((each) => each.id === id));
    expect(await visit("/")).toMatch(/^500/);
    expect((await volumes()).volumes).toContainEqual(expect.objectContaining({ databaseId: id, why: "dropped" }));
    await svc("admin", "db", "undrop", branch);
    await waitFor("the app to read", 60_000, async () => (await visit("/")) === "200 2");
    expect(await visit("/write")).toBe("200 3");
  });
});
