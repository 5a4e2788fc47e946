import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { wicketName } from "../names.ts";
import { quiet } from "../testing/edge.ts";
import { aGate } from "../testing/gate.ts";
import { openGateFiles } from "./gate-files.ts";
import { type Gates, openGates } from "./gates.ts";
import { dayOf, tokenOf } from "./token.ts";

const day = 86_400_000;
let dir: string;
let nowMs: number;
let gates: Gates;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-gates-"));
  nowMs = Date.UTC(2030, 0, 10, 12);
  gates = await open();
});
afterEach(async () => {
  await gates[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const tree = () => join(dir, "tree");
const open = () =>
  openGates({ ...systemClock, now: () => new Date(nowMs) }, join(dir, "kept"), openGateFiles(tree()), quiet);
const production = (revision: string) => ({ revision, channel: "production" });
const opens = async (revision: string, token: string, channel = "production") =>
  (await readdir(join(tree(), wicketName({ revision, channel }))).catch((): string[] => [])).includes(token);

test("a cookie opens for its week, and with the days new ones come and old ones go", async () => {
  const gate = await aGate("x");
  const used = [production(gate.revision)];
  await gates.learn([gate]);
  gates.use(used);
  const first = tokenOf(gate.key, "production", dayOf(nowMs));
  expect(await opens(gate.revision, first)).toBe(true);
  nowMs += 7 * day;
  gates.use(used);
  expect(await opens(gate.revision, first)).toBe(true);
  expect(await opens(gate.revision, tokenOf(gate.key, "production", dayOf(nowMs)))).toBe(true);
  nowMs += day;
  gates.use(used);
  expect(await opens(gate.revision, first)).toBe(false);
  expect(await readdir(join(tree(), wicketName(production(gate.revision))))).toHaveLength(8);
});

test("whoever logs in as a day begins gets a cookie that opens", async () => {
  const gate = await aGate("x");
  await gates.learn([gate]);
  gates.use([production(gate.revision)]);
  nowMs += day;
  expect(gates.find(gate.revision)).not.toBeNull();
  expect(await opens(gate.revision, tokenOf(gate.key, "production", dayOf(nowMs)))).toBe(true);
});

test("a gate is open to nobody until it is told, and to nobody once no route names it", async () => {
  const gate = await aGate("x");
  gates.use([production(gate.revision)]);
  expect(gates.find(gate.revision)).toBeNull();
  expect(await readdir(tree())).toEqual([]);
  await gates.learn([gate]);
  expect(await readdir(tree())).toEqual([wicketName(production(gate.revision))]);
  gates.use([]);
  expect(await readdir(tree())).toEqual([]);
});

test("what makes no sense is not believed", async () => {
  const gate = await aGate("x");
  const nonsense = [
    { ...gate, revision: "../../../x" },
    { ...gate, revision: "short" },
    { ...gate, key: new Uint8Array(16) },
    { ...gate, passwordHash: "x" },
  ];
  gates.use(nonsense.map(({ revision }) => production(revision)));
  await gates.learn(nonsense);
  for (const { revision } of nonsense) expect(gates.find(revision)).toBeNull();
  expect(await readdir(tree())).toEqual([]);
});

test("a restarted router knows them, and shuts what is not used any more", async () => {
  const [kept, gone] = [await aGate("x"), await aGate("y")];
  await gates.learn([kept, gone]);
  gates.use([production(kept.revision), production(gone.revision)]);
  await gates[Symbol.asyncDispose]();
  gates = await open();
  gates.use([production(kept.revision)]);
  expect(gates.find(kept.revision)).toMatchObject({ projectId: "p1", passwordHash: kept.passwordHash });
  expect(await readdir(tree())).toEqual([wicketName(production(kept.revision))]);
  expect(JSON.parse(await readFile(join(dir, "kept", "gates.json"), "utf8")).gates).toHaveLength(2);
});
