import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { writeCountries } from "../testing/country-file.ts";
import { quiet } from "../testing/edge.ts";
import { openCountries } from "./countries.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-countries-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test("addresses are of the country that the file says, or of none", async () => {
  const path = join(dir, "countries.mmdb");
  await writeCountries(path, { "00001010": "NZ", "110000": "IS", "111": "no country" });
  const countryOf = await openCountries(path, quiet);
  const asked = ["10.1.2.3", "192.0.2.7", "127.0.0.1", "255.0.0.1", "2001:db8::1", "", "no address"];
  expect(asked.map(countryOf)).toEqual(["NZ", "IS", null, null, null, null, null]);
});

test("without a file, or with a damaged one, no country is known", async () => {
  const damaged = join(dir, "damaged.mmdb");
  await writeFile(damaged, "nothing of the kind");
  for (const path of [null, join(dir, "missing.mmdb"), damaged]) {
    expect((await openCountries(path, quiet))("192.0.2.7")).toBeNull();
  }
});
