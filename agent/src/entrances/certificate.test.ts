import { run } from "@svc/runtime/command";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { expect, test } from "vitest";
import { createEntranceCertificate } from "./certificate.ts";

const address = "10.0.0.7";
const anEntrancePem = async (names: string): Promise<string> => {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null"];
  const about = ["-subj", "/CN=test", "-addext", `subjectAltName=IP:${names}`];
  return (await run(["openssl", "req", "-x509", ...key, ...about])).stdout;
};

test("a certificate is asked for while there is none for the address, once an hour", async () => {
  const clock = createManualClock();
  let asked = 0;
  const renewal = {
    signal() {
      asked += 1;
    },
  };
  const certificate = createEntranceCertificate({ clock, address, first: { entrancePem: "" }, renewal });
  certificate.need();
  certificate.need();
  expect(asked).toBe(1);
  certificate.give({ entrancePem: await anEntrancePem("10.0.0.8") });
  certificate.need();
  expect(asked).toBe(1);
  await clock.advance(60 * 60 * 1000);
  certificate.need();
  expect(asked).toBe(2);
  certificate.give({ entrancePem: await anEntrancePem(address) });
  await clock.advance(60 * 60 * 1000);
  certificate.need();
  expect(asked).toBe(2);
});
