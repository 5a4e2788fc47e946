import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databaseVolumesReply } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { deployNotesApp, type NotesSite, notesApps } from "../support/notes-app.ts";
import { quickCopies } from "../support/quick-copies.ts";
import { waitFor } from "../support/wait-for.ts";

/** What keeps the data of a database when its machine does not, on the whole platform. */

let cluster: Cluster;
let dir: string;
beforeAll(async () => {
  cluster = await startCluster({ agents: 2, agent: quickCopies, control: { SVC_DRAIN_SECONDS: "0.25" } });
  dir = await mkdtemp(join(tmpdir(), "svc-copies-"));
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

describe.each(notesApps)("the copy of a database on $engine", (app) => {
  const slug = `kept-${app.engine}`;
  const branch = `${slug}/production`;
  let site: NotesSite;

  /** Until all that was acknowledged by now is in the copy on the other machine. */
  const covered = () => {
    const since = Date.now();
    return waitFor("the copy to have everything", 300_000, async () => {
      const { copies, node } = await site.show();
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
    site = await deployNotesApp(cluster, join(dir, slug), { slug, ...app });
    expect(await site.visit("/write")).toBe("200 1");
    await covered();
    const before = await site.show();
    await site.svc("admin", "db", "move", branch);
    const after = await site.show();
    expect(after.node?.id).not.toBe(before.node?.id);
    expect(after).toMatchObject({ status: "ready", generation: before.generation + 1 });
    await waitFor("the app to read", 60_000, async () => (await site.visit("/")) === "200 1");
    expect(await site.visit("/write")).toBe("200 2");
  });

  test("brings back what was there at a moment before it was deleted", async () => {
    await covered();
    const at = new Date().toISOString();
    await covered();
    await site.svc("db", "query", "drop table notes", "--project", slug);
    expect(await site.visit("/")).toMatch(/^500/);
    await site.svc("admin", "db", "restore", branch, "--at", at, "--yes");
    await waitFor("the app to read", 60_000, async () => (await site.visit("/")) === "200 2");
  });

  test("comes back with its data and its address when it was dropped", async () => {
    const { id } = await site.show();
    const volumes = async () => databaseVolumesReply.parse(await site.svc("admin", "db", "volumes"));
    await site.svc("db", "disable", "--project", slug, "--channel", "production", "--yes");
    await waitFor("it to be gone", 120_000, async () => (await volumes()).dropped.some((each) => each.id === id));
    expect(await site.visit("/")).toMatch(/^500/);
    expect((await volumes()).volumes).toContainEqual(expect.objectContaining({ databaseId: id, why: "dropped" }));
    await site.svc("admin", "db", "undrop", branch);
    await waitFor("the app to read", 60_000, async () => (await site.visit("/")) === "200 2");
    expect(await site.visit("/write")).toBe("200 3");
  });
});
