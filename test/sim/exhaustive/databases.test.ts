import { describe, expect, test } from "vitest";
import { type BackupMutant, backupLife } from "./backup-life.ts";
import { type BranchMutant, branchLife } from "./branch-life.ts";
import { type ChannelMutant, channelsOf } from "./channels.ts";
import { type CopiesMutant, copiesLife } from "./copies-life.ts";
import { type ChangeMutant, databaseChange } from "./database-change.ts";
import { databaseSlots } from "./database-slots.ts";
import { type Explored, explore } from "./explore.ts";
import { type InstanceMutant, instanceLife } from "./instance-life.ts";
import { keptLog } from "./kept-log.ts";
import { type ProofMutant, proofLife } from "./proof-life.ts";
import { type ProxyMutant, proxyTables } from "./proxy-tables.ts";
import { type UpgradeMutant, upgradeWaves } from "./upgrade-waves.ts";
import { type VolumesMutant, volumesLife } from "./volumes-life.ts";

describe("the life of a database, in every order of events", () => {
  test("has at most one server, data that is made once, the password that people are told, and no write while it is read-only", () => {
    const { violation, states } = explore(branchLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(100_000);
  });

  const bugs: BranchMutant[] = [
    "ready without a login",
    "starts without looking again",
    "starts before the end of the one before",
    "forgets where the data is",
    "commits a rotation first",
    "does not look at the password again",
    "does not count doubts",
    "trusts that what was cut off did not arrive",
    "may make data at any time",
    "makes up for missing data",
    "makes data over data",
    "lets everybody in to a server that the platform writes to",
    "leaves a server as it was started",
    "takes the refusal of a standby for a yes",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(branchLife(bug)).violation).not.toBeNull();
  });
});

describe("a database that moves or is restored, in every order of events", () => {
  test("is let in at one place, loses no more than was said, and is never locked out for good", () => {
    const { violation, states } = explore(databaseChange(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(100_000);
  });

  test("is started again in another image, and by somebody in any case", () => {
    const { violation, states } = explore(databaseChange(null, ["upgrade"]));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(5_000);
  });

  const bugs: ChangeMutant[] = [
    "goes on when the old server is silent",
    "starts after a reboot without a grant",
    "removes the old volume at the switch",
    "does not wait for the copy",
    "two changes at once",
    "lets the tenant in before that is noted",
    "does not look which try it was",
    "freezes while others are at its password",
    "makes data where some is missing",
    "keeps the tenant out at the proxies alone",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(databaseChange(bug)).violation).not.toBeNull();
  });
});

describe("the copies of a database, in every order of events", () => {
  test("are on different nodes, one gives way only to what follows, and no log is kept for none", () => {
    const { violation, states } = explore(copiesLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: CopiesMutant[] = [
    "gives up the one before at once",
    "does not look whether the successor follows",
    "starts a keeper without looking again",
    "begins without looking again",
    "releases the log of one that is still kept",
    "ends what has become whole as if it had nothing",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(copiesLife(bug)).violation).not.toBeNull();
  });
});

describe("databases that are asked for at once, in every order of events", () => {
  test("are never more than the plan allows", () => {
    const { violation, states } = explore(databaseSlots(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(30);
  });

  test("would be caught with the bug: counts outside the lock", () => {
    expect(explore(databaseSlots("counts outside the lock")).violation).not.toBeNull();
  });
});

describe("servers of a database on one machine, in every order of events", () => {
  test("are never two over one volume, make data once, and start after a reboot only when they are named", () => {
    const { violation, states } = explore(instanceLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: InstanceMutant[] = [
    "no lock at the volume",
    "starts after a reboot without a grant",
    "makes data whenever it was asked to",
    "makes data where the mark is missing",
    "says that it is over when it is to go",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(instanceLife(bug)).violation).not.toBeNull();
  });
});

describe("the tables of database proxies, in every order of events", () => {
  test("let in to one server at a time, and never again to one before", () => {
    const { violation, states } = explore(proxyTables(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: ProxyMutant[] = [
    "publishes the next epoch when the old server is silent",
    "forgets the epochs on the disk",
    "saves the table before the epochs",
    "starts after a reboot without a grant",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(proxyTables(bug)).violation).not.toBeNull();
  });
});

describe("channels at one proxy, in every order of events", () => {
  test("get their own branch's password, database and cancels, and no other's", () => {
    const { violation, states } = explore(channelsOf(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: ChannelMutant[] = [
    "cancels by the key alone",
    "falls back to another channel",
    "lets in by the user alone",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(channelsOf(bug)).violation).not.toBeNull();
  });
});

describe("a backup, in every order of events", () => {
  test("is the only one of its project, and complete only when all of it is there", () => {
    const { violation, states } = explore(backupLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: BackupMutant[] = [
    "takes the last exit code of the pipe",
    "does not look for the last line",
    "takes the node's word",
    "looks for another one and then begins",
    "starts a task without looking again",
    "writes over what has ended",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(backupLife(bug)).violation).not.toBeNull();
  });
});

describe("what databases leave on a disk, in every order of events", () => {
  test("stays for as long as was said, and for as long as anything may need it", () => {
    const { violation, states } = explore(volumesLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: VolumesMutant[] = [
    "tells when the time is over",
    "forgets the copy that a server comes out of",
    "takes no change for a reason",
    "removes the old volume at the switch",
    "keeps copies as short as volumes",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(volumesLife(bug)).violation).not.toBeNull();
  });
});

describe("the log that a server keeps for a copy", () => {
  test("never takes more of the disk than was said, however long the keeper is away", () => {
    expect(explore(keptLog(null)).violation).toBeNull();
  });
});

describe("a proof of restore, in every order of events", () => {
  test("blames no copy that is as it should be, and finds what is missing while nobody writes", () => {
    const { violation, states } = explore(proofLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: ProofMutant[] = [
    "judges before the counters are there",
    "starts before the copy has what was counted",
    "counts after the moment that it asks for",
    "blames the copy for a drain",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(proofLife(bug)).violation).not.toBeNull();
  });
});

describe("servers that get another image, in every order of events", () => {
  test("begin with one, go on in waves, and stop for one that does not come up and for nothing else", () => {
    const { violation, states } = explore(upgradeWaves(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: UpgradeMutant[] = [
    "goes on after one that did not come up",
    "begins with a wave",
    "begins a wave before the one before serves",
    "is halted by what is off the air",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(upgradeWaves(bug)).violation).not.toBeNull();
  });
});

/** Mistakes that the design of managed databases names, each with what has to find it, and what that then says. */
const named: readonly { bug: string; finds: string; found: () => Explored }[] = [
  {
    bug: "the next epoch is published when the server before is silent",
    finds: "two epochs that are let in",
    found: () => explore(proxyTables("publishes the next epoch when the old server is silent")),
  },
  {
    bug: "a proxy's machine forgets the epoch on its disk",
    finds: "a machine that knew the later server lets in to the one before",
    found: () => explore(proxyTables("forgets the epochs on the disk")),
  },
  {
    bug: "a server starts after a reboot without a grant",
    finds: "two epochs that are let in",
    found: () => explore(proxyTables("starts after a reboot without a grant")),
  },
  {
    bug: "data is made when the mark is missing but data is there",
    finds: "data is made where some was in use",
    found: () => explore(instanceLife("makes data where the mark is missing")),
  },
  {
    bug: "the old volume goes at the switch",
    finds: "what is kept for a while is removed before its time",
    found: () => explore(volumesLife("removes the old volume at the switch")),
  },
  {
    bug: "a rotation is committed before the server has it",
    finds: "the server has another password than the branch",
    found: () => explore(branchLife("commits a rotation first")),
  },
  {
    bug: "a backup is complete by the exit code of the pipe's last part",
    finds: "a complete backup that is not all of it",
    found: () => explore(backupLife("takes the last exit code of the pipe")),
  },
  {
    bug: "the slot of backups is looked at, and no index holds it",
    finds: "two backups of one project are under way",
    found: () => explore(backupLife("looks for another one and then begins")),
  },
  {
    bug: "a cancel is routed by its key alone",
    finds: "a cancel ends another channel's query",
    found: () => explore(channelsOf("cancels by the key alone")),
  },
  {
    bug: "a slot keeps the log without a cap",
    finds: "a copy that is away costs the tenant's disk",
    found: () => explore(keptLog("a slot without a cap")),
  },
];

test.each(named)("it is found that $bug", ({ found, finds }) => {
  expect(found().violation).toMatchObject({ problem: finds, path: expect.arrayContaining([expect.any(String)]) });
});
