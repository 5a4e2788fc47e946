import type { OperatorCheckStatus } from "@svc/proto";
import { expect, test } from "vitest";
import { newLeader } from "../../../fleet/cluster/storm/rules.ts";
import { plaintextUses } from "../../../settings/plaintext.ts";
import type { MemberReport } from "../../../stores/etcd/index.ts";
import { judgeContent, judgeOpenEtcd, judgePlaintext } from "./exposure.ts";
import { checkOf, type Finding, fail, listed, ok, shortReason, warn } from "./finding.ts";
import {
  judgeCertificates,
  judgeClocks,
  judgeDisk,
  judgeEdges,
  judgeLeader,
  judgeNodes,
  judgePlacements,
  judgeSecrets,
  judgeVersions,
  judgeWork,
  type MachineFacts,
  type ReplicaFacts,
} from "./machines/rules.ts";
import { judgeEtcd, judgePostgres, judgeRegistry } from "./stores/rules.ts";

const now = new Date("2030-06-01T00:00:00Z");
const inDays = (days: number) => new Date(now.getTime() + days * 86_400_000);
const mb = 1024 * 1024;

const aMember = (fields: object = {}): MemberReport => ({
  ...{ endpoint: "http://etcd-1.test:2379", version: "3.5.0", dbSizeBytes: mb, dbSizeInUseBytes: mb },
  ...{ hasLeader: true, complaints: [], members: 3 },
  ...fields,
});
const dead = (endpoint = "http://etcd-3.test:2379"): MemberReport => ({ endpoint, error: "connection refused" });
const aReplica = (fields: Partial<ReplicaFacts> = {}): ReplicaFacts => ({
  ...{ serverId: "replica-one", version: "1.0.0", masterKeyIds: ["k1"], clockOffsetMs: null, address: null },
  ...fields,
});
const aMachine = (fields: Partial<MachineFacts> = {}): MachineFacts => ({
  ...{ id: "n1", name: "node-1", role: "node", status: "ready", version: "1.0.0", diskFull: false, refusal: null },
  ...{ dockerfileProblem: null, drainDeadline: null, certificateExpiresAt: inDays(25), clockOffsetMs: null },
  ...fields,
});
const anEdge = (fields: object = {}) => ({
  ...{ id: "e1", name: "edge-1", isConnected: true, generation: 7, error: null, hostsBehind: 0 },
  ...fields,
});
const aTask = (fields: object = {}) => ({
  ...{
    taskId: "t1",
    deploymentId: "d1",
    kind: "serve" as const,
    waitsMs: 120_000,
    refused: { "too little memory": 2 },
  },
  ...fields,
});
const three = [
  aMember(),
  aMember({ endpoint: "http://etcd-2.test:2379" }),
  aMember({ endpoint: "http://etcd-3.test:2379" }),
];
const local = {
  ...{ apiUrl: "http://127.0.0.1:4000", etcdEndpoints: ["http://127.0.0.1:2379"] },
  ...{ databaseUrl: "postgres:///svc?host=/run/postgresql", registryUrl: "http://127.0.0.1:5000" },
  s3Endpoint: undefined,
};
const kinds = (fields: object) => ({ kinds: [{ kind: "deploy", failed: 0, overdue: 0, failing: 0, ...fields }] });
const postgres = {
  version: "17.2",
  connectionsUsed: 10,
  connectionsMax: 100,
  missing: [],
  unknown: [],
  isPlaintext: false,
};
const own = { serverId: "replica-one", offsetMs: 3, withinMs: 2 };
const decade = inDays(3650);
const lowest = { reason: "3 of 5 nodes were lost within a minute", since: "2030-06-01T00:00:00.000Z" };

test.each<[what: string, findings: Finding[], status: OperatorCheckStatus, says: RegExp, hint: RegExp | null]>([
  ["three members that agree", judgeEtcd(three), "ok", /3 of 3 members.*1 may fail/, null],
  ["one member of one", judgeEtcd([aMember({ members: 1 })]), "ok", /1 of 1 member .*none may fail/, null],
  [
    "a dead member of three",
    judgeEtcd([...three.slice(0, 2), dead()]),
    "fail",
    /etcd-3.*connection refused/,
    /No other may/,
  ],
  ["no member at all", judgeEtcd([dead()]), "fail", /No etcd member answers/, /sites go on/],
  [
    "a member that is alone",
    judgeEtcd([aMember({ hasLeader: false }), dead(), dead()]),
    "fail",
    /does not answer/,
    /Start/,
  ],
  [
    "no space",
    judgeEtcd([aMember({ members: 1, complaints: ["memberID:1 alarm:NOSPACE "] })]),
    "fail",
    /NOSPACE/,
    /disarm/,
  ],
  ["a store that grows", judgeEtcd([aMember({ members: 1, dbSizeBytes: 1700 * mb })]), "warn", /1700 MiB/, /defrag/],
  ["one endpoint of three", judgeEtcd([aMember()]), "warn", /names 1 of 3/, /Name all/],
  ["two members", judgeEtcd([aMember({ members: 2 }), aMember({ members: 2 })]), "warn", /has 2 members/, /odd/],
  [
    "mixed etcds",
    judgeEtcd([...three.slice(1), aMember({ version: "3.6.0" })]),
    "warn",
    /3.5.0 and 3.6.0/,
    /one version/,
  ],

  ["a Postgres that is well", judgePostgres(postgres), "ok", /17.2 answers, 10 of 100/, null],
  ["many connections", judgePostgres({ ...postgres, connectionsUsed: 85 }), "warn", /85 of 100/, /max_connections/],
  ["no connection left", judgePostgres({ ...postgres, connectionsUsed: 97 }), "fail", /97 of 100/, /max_connections/],
  [
    "an old schema",
    judgePostgres({ ...postgres, missing: ["0020-x.sql"] }),
    "fail",
    /lacks 0020-x/,
    /svc-control migrate/,
  ],
  ["a Postgres without TLS", judgePostgres({ ...postgres, isPlaintext: true }), "warn", /without TLS/, /verify-full/],
  ["a newer schema", judgePostgres({ ...postgres, unknown: ["0099-y.sql"] }), "warn", /newer version/, /every replica/],

  ["an etcd that asks for certificates", [...judgeEtcd(three), ...judgeOpenEtcd([])], "ok", /3 of 3/, null],
  [
    "an etcd that takes whoever comes",
    [...judgeEtcd(three), ...judgeOpenEtcd(["https://etcd-1.test:2379"])],
    "warn",
    /etcd-1.* without a certificate/,
    /--client-cert-auth/,
  ],
  [
    "a registry in the clear",
    judgePlaintext(plaintextUses({ ...local, registryUrl: "http://registry.test:5000" }), "registry"),
    "warn",
    /SVC_REGISTRY_URL is used in the clear/,
    /https/,
  ],
  [
    "sites without TLS",
    judgeContent({ scheme: "http", domain: "sites.test" }, "https://api.test"),
    "warn",
    /in the clear/,
    /SVC_EDGE_TLS=acme/,
  ],
  [
    "sites below the API",
    judgeContent({ scheme: "https", domain: "sites.api.test" }, "https://api.test"),
    "warn",
    /may set cookies of api.test/,
    /domain of their own/,
  ],

  ["a registry that takes pushes", judgeRegistry({ host: "r.test", writeError: null }), "ok", /takes what/, null],
  [
    "a registry that is read-only",
    judgeRegistry({ host: "r.test", writeError: "405" }),
    "fail",
    /takes nothing/,
    /full disk/,
  ],

  ["a leader", judgeLeader("replica-one", null, [aReplica()]), "ok", /leads 1 replica/, null],
  ["no leader", judgeLeader(null, null, [aReplica()]), "fail", /No replica/, /etcd/],
  ["a leader that went", judgeLeader("gone", null, [aReplica()]), "warn", /not announced/, /seconds/],
  [
    "a leader whose address is known",
    judgeLeader("replica-one", null, [aReplica({ address: "10.0.0.1:4000" })]),
    "ok",
    /^replica- at 10.0.0.1:4000 leads/,
    null,
  ],
  [
    "a leader that has just begun",
    judgeLeader("replica-one", { ...lowest, reason: newLeader }, [aReplica()]),
    "warn",
    /since 00:00:00 UTC on 2030-06-01/,
    /^Wait half a minute/,
  ],
  ["a storm", judgeLeader("replica-one", lowest, [aReplica()]), "warn", /3 of 5 nodes/, /fence/],

  ["clocks that agree", judgeClocks(own, [aReplica()], [aMachine()]), "ok", /0.0 s ahead/, null],
  [
    "a replica that is behind",
    judgeClocks(own, [aReplica({ serverId: "b", clockOffsetMs: -3_000 })], []),
    "warn",
    /3.0 s behind/,
    /chrony/,
  ],
  [
    "a machine far ahead",
    judgeClocks(own, [], [aMachine({ clockOffsetMs: 45_000 })]),
    "fail",
    /node-1 is 45.0 s ahead/,
    /chrony/,
  ],
  ["this replica being wrong", judgeClocks({ ...own, offsetMs: -31_000 }, [], []), "fail", /31.0 s behind/, /chrony/],

  ["certificates that last", judgeCertificates([aMachine()], decade, now), "ok", /25 days/, null],
  [
    "one that ends soon",
    judgeCertificates([aMachine({ certificateExpiresAt: inDays(6) })], decade, now),
    "warn",
    /node-1/,
    /renewed/,
  ],
  [
    "one that is over",
    judgeCertificates([aMachine({ certificateExpiresAt: inDays(-1) })], decade, now),
    "fail",
    /is over/,
    /token/,
  ],
  ["an authority that ends", judgeCertificates([], inDays(300), now), "warn", /authority ends on 2031/, /Replace/],
  ["an authority about to end", judgeCertificates([], inDays(20), now), "fail", /authority ends on 2030/, /Replace/],

  ["one key everywhere", judgeSecrets([aReplica(), aReplica()]), "ok", /2 replicas.*1 master key/, null],
  [
    "another key on one",
    judgeSecrets([aReplica(), aReplica({ serverId: "b", masterKeyIds: ["k2"] })]),
    "fail",
    /lacks master key/,
    /SVC_MASTER_KEY_FILE/,
  ],
  [
    "a rotation under way",
    judgeSecrets([aReplica(), aReplica({ masterKeyIds: ["k1", "k2"] })]),
    "warn",
    /rotation/,
    /Restart/,
  ],
  [
    "a rotation not ended",
    judgeSecrets([aReplica({ masterKeyIds: ["k2", "k1"] })]),
    "warn",
    /2 master keys/,
    /rotate-key/,
  ],
  [
    "a replica that is older",
    judgeSecrets([aReplica({ masterKeyIds: null })]),
    "warn",
    /does not tell/,
    /this version/,
  ],

  ["one version", judgeVersions([aReplica()], [aMachine()]), "ok", /All are of version 1.0.0/, null],
  [
    "an older agent",
    judgeVersions([aReplica()], [aMachine({ version: "0.9.0" })]),
    "warn",
    /0.9.0: node-1/,
    /control first/,
  ],

  [
    "nodes that work",
    judgeNodes([aMachine(), aMachine({ status: "cordoned" })], now),
    "ok",
    /1 of 2 nodes takes/,
    null,
  ],
  ["no node", judgeNodes([aMachine({ role: "edge" })], now), "fail", /No node has joined/, /bootstrap-token/],
  ["no node to place on", judgeNodes([aMachine({ status: "cordoned" })], now), "fail", /takes new work/, /nodes list/],
  [
    "a lost node",
    judgeNodes([aMachine(), aMachine({ name: "node-2", status: "unreachable" })], now),
    "fail",
    /node-2: no contact/,
    /force-fence/,
  ],
  [
    "an engine that must not build Dockerfiles",
    judgeNodes([aMachine(), aMachine({ name: "node-2", dockerfileProblem: "Docker 20.10.24 is old" })], now),
    "warn",
    /node-2: no Dockerfiles .*20\.10\.24 is old/,
    /remap users/,
  ],
  [
    "a node that says another address than its own",
    judgeNodes(
      [aMachine(), aMachine({ name: "node-2", status: "unreachable", refusal: "its address is not its own" })],
      now,
    ),
    "fail",
    /identity of node-2 was turned away: its address is not its own/,
    /nodes readdress node-2/,
  ],
  ["a clone", judgeNodes([aMachine(), aMachine({ status: "quarantined" })], now), "fail", /two machines/, /fence/],
  [
    "a drain that hangs",
    judgeNodes([aMachine(), aMachine({ status: "draining", drainDeadline: inDays(-1) })], now),
    "warn",
    /did not end/,
    /nodes show/,
  ],

  ["room on disks", judgeDisk([aMachine()]), "ok", /cannot be seen/, null],
  ["a full disk", judgeDisk([aMachine({ diskFull: true })]), "warn", /node-1: too little/, /Make room/],

  ["an edge at the newest table", judgeEdges([anEdge()], 7), "ok", /1 of 1 edge at table 7/, null],
  ["no edge", judgeEdges([], 7), "fail", /No edge/, /role edge/],
  ["a silent edge", judgeEdges([anEdge({ isConnected: false })], 7), "fail", /no contact/, /Start its router/],
  ["an edge that cannot", judgeEdges([anEdge({ error: "a.test: no files" })], 7), "fail", /cannot serve/, /log/],
  ["an edge that is behind", judgeEdges([anEdge({ generation: 6 })], 7), "warn", /serves table 6/, /half a minute/],
  ["an edge that fetches", judgeEdges([anEdge({ hostsBehind: 2 })], 7), "warn", /2 hosts/, /minute/],

  ["an idle queue", judgeWork({ kinds: [] }), "ok", /No work is late/, null],
  ["work that is late", judgeWork(kinds({ overdue: 2 })), "fail", /2 work items of kind deploy wait /, /workers/],
  ["work that fails", judgeWork(kinds({ failing: 1 })), "warn", /keeps failing/, /work failed/],
  ["work that was given up", judgeWork(kinds({ failed: 1 })), "warn", /given up/, /work failed/],

  ["all placed", judgePlacements([], 0), "ok", /Every task/, null],
  ["a task that just came", judgePlacements([aTask({ waitsMs: 100 })], 1), "ok", /none for more than a minute/, null],
  ["a task that nobody takes", judgePlacements([aTask()], 1), "warn", /2 min: too little memory \(2\)/, /explain d1/],
])("%s", (_what, findings, status, says, hint) => {
  const check = checkOf("etcd", findings);
  expect(check).toMatchObject({ status, detail: expect.stringMatching(says) });
  if (hint === null) expect(check.hint).toBeNull();
  else expect(check.hint).toMatch(hint);
});

test("the worst comes first, the rest is told after it, and no more of it than somebody reads", () => {
  const check = checkOf("nodes", [
    ok("Well."),
    ...Array.from({ length: 30 }, () => warn("Not so well.", "Look.")),
    fail("Broken.", "Mend it."),
  ]);
  expect(check).toMatchObject({ status: "fail", detail: "Broken.", hint: "Mend it." });
  expect([check.more.length, check.more[0], check.more.at(-1)]).toEqual([21, "Not so well. Look.", "And 11 more."]);
});

test.each([
  [[], "nobody"],
  [["a"], "a"],
  [["a", "b", "c"], "a, b and c"],
  [["a", "b", "c", "d", "e", "f", "g"], "a, b, c, d, e and 2 more"],
])("%j reads as %s", (names, text) => {
  expect(listed(names)).toBe(text);
});

test.each([
  ["Deadline exceeded after 3.001s,LB pick: 0.001s,remote_addr=127.0.0.1:4379", "no answer in time"],
  [
    "No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:4379. Resolution note: ",
    "it refuses connections",
  ],
  ["permission denied", "permission denied"],
  [`first ${"x".repeat(300)}\nsecond`, `first ${"x".repeat(153)}…`],
])("a client's message is told in few words: %s", (message, said) => {
  expect(shortReason(message)).toBe(said);
});

test("what is well is passed over", () => {
  const uses = plaintextUses(local);
  expect(uses).toEqual([]);
  expect(judgeContent({ scheme: "http", domain: "svc.localhost" }, "http://localhost:4000")).toEqual([]);
  expect(judgeContent({ scheme: "https", domain: "sites.test" }, "https://api.test")).toEqual([]);
});
