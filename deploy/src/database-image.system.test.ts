import { randomBytes } from "node:crypto";
import { databaseEngines, defaultDatabaseImages } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, describe, expect, test } from "vitest";
import { ensureDatabaseImages } from "./database-image.ts";
import { recipes } from "./database-recipes.ts";
import { readSettings } from "./settings.ts";

const docker = new Docker({ socketPath: readSettings(process.env, ".").dockerSocket });
const image = `svc-test-postgres-${randomBytes(6).toString("hex")}:17`;
const ensure = () => ensureDatabaseImages({ clock: systemClock, docker, images: { postgres: image }, log: () => {} });

/** Runs one program of an image and returns what it said. */
async function runIn(imageName: string, command: readonly string[]): Promise<{ code: number; said: string }> {
  const container = await docker.createContainer({
    Image: imageName,
    Entrypoint: [...command],
    Labels: { "svc.test": image },
    HostConfig: { NetworkMode: "none", ReadonlyRootfs: true },
  });
  try {
    await container.start();
    const { StatusCode } = await container.wait();
    return { code: StatusCode, said: (await container.logs({ stdout: true, stderr: true })).toString("utf8") };
  } finally {
    await container.remove({ force: true });
  }
}

afterAll(async () => {
  await docker.getImage(image).remove({ force: true });
});

test("of two that want an image at once one makes it, and afterwards it is there", { timeout: 600_000 }, async () => {
  const both = await Promise.all([ensure(), ensure()]);
  expect(both.map(({ postgres }) => postgres).toSorted()).toEqual(["built", "present"]);
  expect(await ensure()).toEqual({ postgres: "present" });
});

describe.each(databaseEngines)("the image of %s", (engine) => {
  const name = defaultDatabaseImages[engine];
  const programs = Object.entries(recipes[engine].programs).flatMap(([directory, names]) =>
    names.map((program: string) => `/${directory}/${program}`),
  );

  test("has every library that its programs need", async () => {
    const loader = process.arch === "x64" ? "/lib64/ld-linux-x86-64.so.2" : "/lib/ld-linux-aarch64.so.1";
    const check = `for program; do ${loader} --list "$program" || exit 1; done`;
    const { code, said } = await runIn(name, ["/bin/sh", "-c", check, "sh", ...programs]);
    expect(code, said).toBe(0);
    expect(said).not.toContain("not found");
  });

  test("is of an ordinary user, and has the version that it says", async () => {
    const { Config } = await docker.getImage(name).inspect();
    expect(Config).toMatchObject({ User: "999:999", Entrypoint: ["/usr/lib/svc-database/entry.sh"] });
    const server = programs.find((program) => /\/(?:postgres|mariadbd)$/.test(program)) ?? "";
    const { said } = await runIn(name, [server, "--version"]);
    expect(said).toContain(recipes[engine].engine.split(" ")[1]);
  });
});

test.each([
  "/usr/lib/postgresql/17/lib/dblink.so",
  "/usr/lib/postgresql/17/lib/file_fdw.so",
  "/usr/lib/postgresql/17/lib/postgres_fdw.so",
  "/usr/lib/postgresql/17/lib/refint.so",
  "/usr/lib/postgresql/17/lib/llvmjit.so",
  "/usr/share/postgresql/17/extension/dblink.control",
  "/usr/bin/perl",
  "/usr/bin/apt-get",
])("the image of postgres has no %s", async (path) => {
  expect((await runIn(defaultDatabaseImages.postgres, ["/bin/cat", path])).said).toContain("No such file");
});
