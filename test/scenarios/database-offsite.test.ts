import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { adminDatabasesReply, backupsReply } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startS3, type TestS3 } from "../../control/src/stores/s3/testing.ts";
import { type Cluster, startCluster } from "../cluster.ts";
import { deployNotesApp, type NotesSite, notesApps } from "../support/notes-app.ts";
import { quickCopies } from "../support/quick-copies.ts";
import { waitFor } from "../support/wait-for.ts";

/** What is left of a database when the site is lost, on the whole platform: nothing but a bucket has it. */

let cluster: Cluster;
let s3: TestS3;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-offsite-"));
  s3 = await startS3();
  const { endpoint, bucket, region, accessKeyId, secretAccessKey } = s3.settings;
  await writeFile(join(dir, "secret"), secretAccessKey, { mode: 0o600 });
  cluster = await startCluster({
    agents: 2,
    agent: quickCopies,
    control: {
      ...{ SVC_DRAIN_SECONDS: "0.25", SVC_S3_ENDPOINT: endpoint, SVC_S3_BUCKET: bucket, SVC_S3_REGION: region },
      ...{
        SVC_S3_PREFIX: "site",
        SVC_S3_ACCESS_KEY_ID: accessKeyId,
        SVC_S3_SECRET_ACCESS_KEY_FILE: join(dir, "secret"),
      },
    },
  });
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await s3?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

describe.each(notesApps)("a database on $engine that is off-site", (app) => {
  const slug = `away-${app.engine}`;
  const branch = `${slug}/production`;
  let site: NotesSite;

  const listed = async () => {
    const { body } = await cluster.api("GET", "/admin/databases");
    return adminDatabasesReply.parse(body).databases.find(({ projectSlug }) => projectSlug === slug);
  };

  test("comes back from the bucket alone, with what was written after its base", async () => {
    site = await deployNotesApp(cluster, join(dir, slug), { slug, ...app });
    expect(await site.visit("/write")).toBe("200 1");
    await waitFor("the copy to be off-site", 300_000, async () => typeof (await listed())?.offsiteAt === "string");
    expect(await site.visit("/write")).toBe("200 2");
    const since = Date.now();
    await waitFor("what was written since to be off-site", 300_000, async () => {
      const { offsiteAt, protection } = (await listed()) ?? {};
      return typeof offsiteAt === "string" && Date.parse(offsiteAt) > since && protection === "offsite";
    });
    await site.svc("db", "query", "drop table notes", "--project", slug);
    const { node, copies } = await site.show();
    const fetched = await site.svc("admin", "db", "fetch", branch, "--to", node?.name ?? "");
    const copyId = String(fetched["copyId"]);
    expect(copies.map(({ id }) => id)).not.toContain(copyId);
    await site.svc("admin", "db", "restore", branch, "--copy", copyId, "--yes");
    const after = await site.show();
    expect(after).toMatchObject({ status: "ready", generation: 2, node: { id: node?.id } });
    await waitFor("the app to read", 60_000, async () => (await site.visit("/")) === "200 2");
    expect(await site.visit("/write")).toBe("200 3");
  });

  test("has its backups there as well", async () => {
    await site.svc("db", "backup", "create", "--project", slug);
    await waitFor("the backup to be off-site", 120_000, async () => {
      const { backups } = backupsReply.parse(await site.svc("db", "backup", "list", "--project", slug));
      return backups.length === 1 && typeof backups[0]?.offsiteAt === "string";
    });
  });
});
