// Plain JavaScript without imports: set-up reads it on whatever Node the machine has, before anything is installed.

/**
 * Who needs a program: `debian`: everybody, and every Debian has it; `start`: the platform; `engine`: a machine on
 * which no container engine answers yet; `root`: what only root does; `tests`: tests and benchmarks; `setup`: set-up
 * itself, which would not run without; `optional`: nobody, it is started only where the machine has it.
 *
 * @typedef {"debian" | "start" | "engine" | "root" | "tests" | "setup" | "optional"} Need
 */

/**
 * @typedef {object} ListedProgram
 * @property {Need} need
 * @property {string | null} debian the Debian package that has it; null where it comes in some other way
 * @property {string[]} [orElse] other names under which it will do as well
 * @property {string[]} [asks] arguments at which it ends at once and well; `--version` unless said
 */

/**
 * Checks each entry and keeps the names.
 *
 * @template {string} Name
 * @param {Record<Name, ListedProgram>} entries
 * @returns {Record<Name, ListedProgram>}
 */
const list = (entries) => entries;

/** Every program that our code starts and does not bring along. */
export const programs = list({
  dockerd: { need: "engine", debian: "docker.io" },
  "docker-init": { need: "tests", debian: "docker.io" },
  iptables: { need: "root", debian: "iptables" },
  "iptables-restore": { need: "root", debian: "iptables" },
  ip6tables: { need: "root", debian: "iptables" },
  "ip6tables-restore": { need: "root", debian: "iptables" },
  etcd: { need: "start", debian: "etcd-server" },
  caddy: { need: "start", debian: "caddy", asks: ["version"] },
  "docker-registry": { need: "start", debian: "docker-registry" },
  ss: { need: "start", debian: "iproute2" },
  // For a base image where none can be pulled.
  debootstrap: { need: "root", debian: "debootstrap" },
  // For the images of database servers, likewise.
  "dpkg-deb": { need: "debian", debian: "dpkg" },
  ip: { need: "tests", debian: "iproute2", asks: ["-Version"] },
  tc: { need: "tests", debian: "iproute2", asks: ["-Version"] },
  etcdctl: { need: "tests", debian: "etcd-client", asks: ["version"] },
  // A CA for certificates that nobody trusts.
  pebble: { need: "tests", debian: "pebble", asks: ["-h"] },
  openssl: { need: "tests", debian: "openssl", asks: ["version"] },
  "mkfs.ext4": { need: "tests", debian: "e2fsprogs", asks: ["-V"] },
  git: { need: "tests", debian: "git" },
  // For measuring the edge: clients that leave the machine to what is measured.
  h2load: { need: "tests", debian: "nghttp2-client" },
  wrk: { need: "tests", debian: "wrk" },
  // Of MariaDB the bare programs: its package "mariadb-server" would start a server of the machine's.
  mariadbd: { need: "tests", debian: "mariadb-server-core" },
  "mariadb-install-db": { need: "tests", debian: "mariadb-server-core", asks: ["--help"] },
  // Also of those who migrate or restore a managed database.
  mariadb: { need: "tests", debian: "mariadb-client-core" },
  psql: { need: "tests", debian: "postgresql-client" },
  chromium: { need: "tests", debian: "chromium", orElse: ["chromium-browser", "google-chrome"] },
  node: { need: "setup", debian: null },
  npm: { need: "setup", debian: null },
  "apt-get": { need: "optional", debian: "apt" },
  systemctl: { need: "optional", debian: "systemd" },
  // Whatever a person pushes images with; others will do.
  docker: { need: "optional", debian: "docker.io" },
  // A person's browser.
  "xdg-open": { need: "optional", debian: "xdg-utils" },
  open: { need: "optional", debian: null },
  rundll32: { need: "optional", debian: null },
  bash: { need: "debian", debian: "bash" },
  chroot: { need: "debian", debian: "coreutils" },
  dd: { need: "debian", debian: "coreutils" },
  diff: { need: "debian", debian: "diffutils" },
  env: { need: "debian", debian: "coreutils" },
  getent: { need: "debian", debian: "libc-bin" },
  mkfifo: { need: "debian", debian: "coreutils" },
  mount: { need: "debian", debian: "mount" },
  nsenter: { need: "debian", debian: "util-linux" },
  pivot_root: { need: "debian", debian: "util-linux" },
  prlimit: { need: "debian", debian: "util-linux" },
  rm: { need: "debian", debian: "coreutils" },
  // A terminal for tests.
  script: { need: "debian", debian: "bsdutils" },
  setpriv: { need: "debian", debian: "util-linux" },
  sh: { need: "debian", debian: "dash", asks: ["-c", "exit"] },
  sleep: { need: "debian", debian: "coreutils" },
  tar: { need: "debian", debian: "tar" },
  taskset: { need: "debian", debian: "util-linux" },
  umount: { need: "debian", debian: "mount" },
  unshare: { need: "debian", debian: "util-linux" },
  useradd: { need: "debian", debian: "passwd", asks: ["--help"] },
});

/**
 * @param {string} name
 * @returns {name is keyof typeof programs}
 */
const isListed = (name) => Object.hasOwn(programs, name);

/**
 * Throws unless set-up knows how the program gets onto a machine. What has a slash is a file, and not looked for.
 *
 * @param {string} program
 */
export function mustBeListed(program) {
  if (isListed(program) || program.includes("/")) return;
  throw new Error(`${program} is not among the programs that set-up knows: add it to runtime/src/program-list.mjs`);
}

/**
 * What to tell a person on whose machine a program is missing.
 *
 * @param {string} program
 */
export function missingMessage(program) {
  const debian = isListed(program) ? programs[program].debian : null;
  const remedy = `it comes with Debian's package ${debian}: apt-get install --no-install-recommends ${debian}`;
  return `${program} is not on this machine${debian === null ? "" : `; ${remedy}`}`;
}
