import { dirname } from "node:path";
import { performance } from "node:perf_hooks";
import { createTestDatabase, scramVerifier } from "@svc/agent/testing/database";
import pg from "pg";
import type { Cluster } from "../../cluster.ts";
import { succeeded } from "../../support/api.ts";
import { waitFor } from "../../support/wait-for.ts";
import type { Row } from "../table.ts";
import { dropProject, emptyProject, isLetIn, type Login, loginOf, makeBranch, socketDirOf } from "./branch.ts";

const doneMs = 60_000;
const pollMs = 5;

async function untilRefused(host: string, login: Login, from: number): Promise<number> {
  await waitFor("the password of before to be refused", doneMs, async () => !(await isLetIn(host, login)), pollMs);
  return performance.now() - from;
}

/** From the request for another password until the one before is refused, beside the one statement that does it. */
export async function rotations(cluster: Cluster, times: number): Promise<Row[]> {
  const [samples, floor]: [number[], number[]] = [[], []];
  await using bare = createTestDatabase("postgres");
  await bare.run();
  await bare.serves();
  const host = dirname(bare.path);
  const admin = new pg.Client({ host, user: "svc_admin", password: bare.password, database: "postgres" });
  await admin.connect();
  await admin.query("create role tenant login");
  const projectId = await emptyProject(cluster);
  const branch = await makeBranch(cluster, projectId, { engine: "postgres" });
  const socketDir = await socketDirOf(cluster, branch);
  for (let round = 0; round < times; round += 1) {
    const login = { user: "tenant", password: `password-${round}`, database: "postgres" };
    await admin.query(`alter role tenant password '${scramVerifier(login.password)}'`);
    const fromBare = performance.now();
    await admin.query(`alter role tenant password '${scramVerifier("another")}'`);
    floor.push(await untilRefused(host, login, fromBare));

    const before = await loginOf(cluster, branch);
    if (!(await isLetIn(socketDir, before))) throw new Error("what is told lets nobody in");
    const from = performance.now();
    await succeeded(cluster, "POST", `/projects/${projectId}/database/rotate-credentials`);
    samples.push(await untilRefused(socketDir, before, from));
    // The next one has to wait until this one is noted.
    const isNoted = async () => isLetIn(socketDir, await loginOf(cluster, branch));
    await waitFor("the new password to be noted", doneMs, isNoted, pollMs);
  }
  await admin.end();
  await dropProject(cluster, projectId);
  return [
    {
      ...{ name: "databases: another password until the old one is refused", unit: "ms", samples },
      floor: { name: "alter role, until refused", samples: floor },
      aim: { text: "<= 2 s", met: (value) => value <= 2_000 },
    },
  ];
}
