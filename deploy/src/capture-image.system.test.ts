import { defaultCaptureImage } from "@svc/proto";
import Docker from "dockerode";
import { expect, test } from "vitest";
import { readSettings } from "./settings.ts";

const docker = new Docker({ socketPath: readSettings(process.env, ".").dockerSocket });

/** Runs one program of the image and returns what it said. */
async function runInImage(command: readonly string[]): Promise<{ code: number; said: string }> {
  const container = await docker.createContainer({
    Image: defaultCaptureImage,
    Entrypoint: [...command],
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

test.each(["/usr/lib/chromium/chromium-headless-shell", "/usr/bin/socat", "/usr/bin/sh"])(
  "the image in which screenshots are taken has every library that %s needs",
  async (program) => {
    const loader = process.arch === "x64" ? "/lib64/ld-linux-x86-64.so.2" : "/lib/ld-linux-aarch64.so.1";
    const { code, said } = await runInImage([loader, "--list", program]);
    expect(code, said).toBe(0);
    expect(said).not.toContain("not found");
  },
);

test("it is of an ordinary user, and has no program but those", async () => {
  const { Config } = await docker.getImage(defaultCaptureImage).inspect();
  expect(Config).toMatchObject({ User: "998:998", Entrypoint: ["/usr/lib/svc-capture/entry.sh"] });
  const { said } = await runInImage(["/bin/sh", "-c", "echo /usr/bin/* /usr/sbin/*"]);
  expect(said).toContain("/usr/bin/dash /usr/bin/sh /usr/bin/socat /usr/bin/socat1 /usr/sbin/*");
});
