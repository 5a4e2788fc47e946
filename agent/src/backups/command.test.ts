import { databaseEngines, databaseNames } from "@svc/proto";
import { expect, test } from "vitest";
import { dumpCommand } from "./command.ts";

const id = "0f1e2d3c-4b5a-4968-8778-695a4b3c2d1e";

test.each(databaseEngines)("%s is read as the tenant's role, with a password that is no argument", (engine) => {
  const { argv, env } = dumpCommand(engine, id, "secret-word");
  const { database, role } = databaseNames(id);
  expect(argv.join(" ")).toContain(database);
  expect(argv.join(" ")).toContain(role);
  expect(argv.join(" ")).not.toContain("secret-word");
  expect(Object.values(env)).toEqual(["secret-word"]);
});

test("of MariaDB a row goes in whatever it takes, as far as a server takes it", () => {
  expect(dumpCommand("mariadb", id, "").argv).toContain("--max-allowed-packet=1G");
});

test("of MariaDB neither routines nor triggers nor events are in it", () => {
  const { argv } = dumpCommand("mariadb", id, "");
  expect(argv).toEqual(expect.arrayContaining(["--skip-routines", "--skip-triggers", "--skip-events"]));
});
