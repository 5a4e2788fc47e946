import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { copyVolume, databaseVolume } from "@svc/proto";
import { PlacementSchema } from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import Docker from "dockerode";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDockerEngine } from "../engine/docker.ts";
import { labels } from "../engine/engine.ts";
import type { PlacementRecord } from "../journal/records.ts";
import { newRecord } from "../placements/task.ts";
import { createTestDatabase, type TestDatabase } from "../testing/database.ts";
import { waitFor } from "../testing/wait.ts";
import { createVolumes, type Volumes } from "./volumes.ts";

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
let database: TestDatabase;
let copyId: string;
let foreign: string;
let records: PlacementRecord[];
let reports: string[][];
let volumes: Volumes;
let stop: AbortController;
let running: Promise<void>;

/** A volume of this node: one of the database, by its generation, or the copy's. */
async function lay(name: string): Promise<string> {
  const { clusterId, nodeId } = database.owner;
  const whose = name === copyVolume(copyId) ? { [labels.copy]: copyId } : { [labels.database]: database.id };
  const Labels = { [labels.cluster]: clusterId, [labels.node]: nodeId, ...whose };
  await docker.createVolume({ Name: name, Labels });
  return name;
}
const generation = (number: number): string => databaseVolume(database.id, number);
const reported = (names: string[]): Promise<unknown> =>
  waitFor(`a report of ${names}`, () => String(reports.at(-1)) === String(names.toSorted()));
/** Waits for the end of a look that began after this. */
const anotherLook = async (names: string[]): Promise<void> => {
  // The first report may be of a look that was under way.
  for (const _ of [1, 2]) {
    const before = reports.length;
    volumes.take(names);
    await waitFor("another look", () => reports.length > before);
  }
};

beforeEach(async () => {
  database = createTestDatabase("postgres");
  [copyId, foreign, records, reports, stop] = [randomUUID(), "", [], [], new AbortController()];
  volumes = createVolumes({
    ...{ clock: systemClock, engine: database.engine, list: () => records, log: pino({ level: "silent" }) },
    report: async (names) => void reports.push(names),
  });
  running = volumes.run(stop.signal);
});
afterEach(async () => {
  stop.abort();
  await running;
  await database[Symbol.asyncDispose]();
  if (foreign !== "") await docker.getVolume(foreign).remove();
});

test("what control names goes, of whatever generation and of copies too, and what it does not name stays", async () => {
  const names = [await lay(generation(1)), await lay(generation(2)), await lay(copyVolume(copyId))];
  const kept = await lay(generation(3));
  await anotherLook([]);
  await reported([...names, kept]);
  volumes.take([...names, databaseVolume(randomUUID(), 1)]);
  await reported([kept]);
  // Said again, it is as it was.
  await anotherLook(names);
  await reported([kept]);
});

test("what a placement needs stays until that is gone", async () => {
  const names = [await lay(generation(1)), await lay(copyVolume(copyId))];
  const spec = { case: "keeper", value: { copyId, databaseId: database.id } } as const;
  records = [newRecord(create(PlacementSchema, { placementId: "p", spec }), new Date(0))];
  await anotherLook(names);
  await reported([copyVolume(copyId)]);
  records = [];
  await anotherLook(names);
  await reported([]);
});

test("what a container has stays, and holds nothing else up", async () => {
  await database.run();
  const next = await lay(generation(2));
  const names = [generation(1), next];
  await anotherLook(names);
  await reported([generation(1)]);
  await database.serves();
  await database.engine.removeContainer(database.name);
  await anotherLook(names);
  await reported([]);
});

test("what another node of the machine has is neither told of nor removed", async () => {
  foreign = databaseVolume(randomUUID(), 1);
  await docker.createVolume({
    Name: foreign,
    Labels: { [labels.cluster]: database.owner.clusterId, [labels.node]: "n2" },
  });
  await anotherLook([foreign]);
  await reported([]);
  expect((await docker.getVolume(foreign).inspect()).Name).toBe(foreign);
});

test("what the machine had as another node before is told of, and goes when it is named", async () => {
  const { clusterId, nodeId } = database.owner;
  const former = randomUUID();
  foreign = databaseVolume(randomUUID(), 1);
  const Labels = { [labels.cluster]: clusterId, [labels.node]: former, [labels.database]: "d" };
  await docker.createVolume({ Name: foreign, Labels });
  const engine = createDockerEngine({
    ...{ socketPath: "/var/run/docker.sock", owner: { clusterId, nodeId }, formerNodeIds: [former] },
    ...{ clock: systemClock, random: systemRandom },
  });
  const told: string[][] = [];
  const back = createVolumes({
    ...{ clock: systemClock, engine, list: () => records, log: pino({ level: "silent" }) },
    report: async (names) => void told.push(names),
  });
  const until = new AbortController();
  const looking = back.run(until.signal);
  await waitFor("a report of it", () => String(told.at(-1)) === foreign);
  back.take([foreign]);
  await waitFor("its end", () => String(told.at(-1)) === "");
  until.abort();
  await looking;
  foreign = "";
});

test("nothing goes by what was said in a session that is over", async () => {
  const name = await lay(generation(1));
  records = [
    newRecord(create(PlacementSchema, { spec: { case: "database", value: { databaseId: database.id } } }), new Date(0)),
  ];
  await anotherLook([name]);
  volumes.forget();
  records = [];
  // It is looked at again, for what else is to go.
  await anotherLook([]);
  await reported([name]);
});
