import { expect, test } from "vitest";
import { backup, backupTask } from "./backup.ts";

const of = {
  ...{ databaseId: "0f1e2d3c-4b5a-4968-8778-695a4b3c2d1e", engine: "postgres" as const, image: "svc-postgres:17" },
  ...{ targetRepository: "svc/p/backup", timeoutSeconds: 7_200, maxDumpBytes: 5_000_000_000 },
};
const installation = {
  registryHost: "registry.test",
  baseImage: "",
  builderImage: "",
  buildCaBundle: "",
  gatePass: () => "",
};

test("a backup runs where its server is, and writes to one repository", () => {
  const { spec, pinnedTo } = backupTask(of, "n1");
  expect(pinnedTo).toBe("n1");
  expect(backup.needs(spec)).toEqual({
    pull: ["svc/p/backup"],
    push: { repository: "svc/p/backup", kind: "backup" },
    baseImages: false,
  });
});

test("its node is told the password, which is stored with no task", () => {
  const { spec } = backupTask(of, "n1");
  expect(backup.spec.parse(JSON.parse(JSON.stringify(spec)))).toEqual(spec);
  expect(backup.forNode(spec, { ...installation, owner: { password: () => "word" } })).toMatchObject({
    case: "backup",
    value: { ...of, image: { reference: of.image }, maxDumpBytes: 5_000_000_000n, password: "word" },
  });
  expect(JSON.stringify(spec)).not.toContain("word");
});
