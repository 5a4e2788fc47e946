import { describe, expect, test } from "vitest";
import { keyReport, keyRotationReport, serversProblem } from "./report.ts";

const server = (serverId: string, masterKeyIds: string[] | null) => ({ serverId, startedAt: "then", masterKeyIds });

describe("servers that run", () => {
  test.each([
    { when: "none runs", servers: [], behind: null },
    { when: "all seal with the new key", servers: [server("a", ["new", "old"]), server("b", ["new"])], behind: null },
    { when: "one does not know it", servers: [server("a", ["new", "old"]), server("b", ["old"])], behind: /: b \(/ },
    { when: "one only opens it", servers: [server("a", ["old", "new"])], behind: /: a \(/ },
    { when: "one does not tell", servers: [server("a", null)], behind: /: a \(/ },
  ])("$when", ({ servers, behind }) => {
    const problem = serversProblem(servers, ["new", "old"]);
    if (behind === null) expect(problem).toBeNull();
    else expect(problem).toMatch(behind);
  });
});

describe("which keys are needed", () => {
  test("all of them, while one value is sealed with another", () => {
    const counts = [
      { place: "env_var.value", keyId: "new", count: 7 },
      { place: "env_var.value", keyId: "old", count: 1 },
      { place: "deployment.env", keyId: "lost", count: 2 },
    ];
    expect(keyReport(counts, ["new", "old"])).toEqual({
      done: false,
      lines: [
        "key new seals: 7 values (env_var.value 7)",
        "key old opens: 1 value (env_var.value 1)",
        "key lost is NOT CONFIGURED, so nothing opens these: 2 values (deployment.env 2)",
        "3 values are not sealed with key new: keep every other key.",
      ],
    });
  });

  test("the first alone, once it seals everything", () => {
    const { done, lines } = keyReport([{ place: "cluster.ca_key", keyId: "new", count: 1 }], ["new", "old"]);
    expect(done).toBe(true);
    expect(lines).toEqual([
      "key new seals: 1 value (cluster.ca_key 1)",
      "key old opens: 0 values",
      "Every value is sealed with key new: the other keys may be removed.",
    ]);
  });
});

test("what a rotation could not open is named by its place", () => {
  const lines = keyRotationReport({
    resealed: 1,
    overtaken: 2,
    unreadable: [{ place: "env_var.value", key: "p1/KEY" }],
  });
  expect(lines[0]).toBe("sealed 1 value anew; 2 changed meanwhile and kept what they have");
  expect(lines[1]).toContain("env_var.value of p1/KEY");
});
