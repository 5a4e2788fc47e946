import { expect, test } from "vitest";
import { nativeHash } from "./native-hash.ts";
import { newPassword } from "./password.ts";
import { scramVerifier } from "./scram.ts";

test("a SCRAM verifier is what the standard's example makes of its password", () => {
  // RFC 7677: "pencil", with this salt; the proofs of its exchange come from these keys.
  expect(scramVerifier("pencil", Buffer.from("W22ZaJ0SNY7soEsUEjb6gQ==", "base64"))).toBe(
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
  );
});

test("a native hash is what the server makes of a password", () => {
  // As `select password('password')` gives it.
  expect(nativeHash("password")).toBe("*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
});

test("passwords need no escape in a URL, and are never the same", () => {
  const some = Array.from({ length: 100 }, newPassword);
  for (const password of some) expect(password).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(new Set(some).size).toBe(100);
});
