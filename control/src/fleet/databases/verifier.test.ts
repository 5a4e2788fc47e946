import { expect, test } from "vitest";
import { verifierOf } from "./verifier.ts";

const branch = "1f0c2a34-0000-4000-8000-000000000001";
const other = "1f0c2a34-0000-4000-8000-000000000002";

test("Postgres gets a SCRAM verifier, which is the same each time and no other branch's", () => {
  const verifier = verifierOf("postgres", branch, "pencil");
  expect(verifier).toMatch(/^SCRAM-SHA-256\$4096:[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=$/);
  expect(verifierOf("postgres", branch, "pencil")).toBe(verifier);
  expect(verifierOf("postgres", other, "pencil")).not.toBe(verifier);
  expect(verifierOf("postgres", branch, "pencils")).not.toBe(verifier);
});

test("MariaDB gets the hash that its own PASSWORD() makes", () => {
  expect(verifierOf("mariadb", branch, "password")).toBe("*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
});
