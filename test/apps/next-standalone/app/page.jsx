import Image from "next/image";
import Link from "next/link";
import { lines } from "./lines.js";

// Rendered for every request: the facts are those of the container that answers.
export const dynamic = "force-dynamic";

const edition = "first edition";

export default function Page() {
  return (
    <main>
      <Image src="/moon.svg" alt="" width={72} height={72} unoptimized />
      <h1>Night bus</h1>
      <p>{edition}</p>
      <ul>
        {lines.map(({ number, from, to }) => (
          <li key={number}>
            <Link href={`/lines/${number}`}>{number}</Link> {from} – {to}
          </li>
        ))}
      </ul>
      <footer>
        port {process.env.PORT}, at {process.env.SVC_PUBLIC_URL}
      </footer>
    </main>
  );
}
