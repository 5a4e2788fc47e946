import { notFound } from "next/navigation";
import { lines } from "../../lines.js";

export default async function Page({ params }) {
  const { number } = await params;
  const line = lines.find((one) => one.number === number);
  if (line === undefined) notFound();
  return (
    <main>
      <h1>Line {line.number}</h1>
      <p>
        {line.from} – {line.to}, every half hour until dawn.
      </p>
    </main>
  );
}
