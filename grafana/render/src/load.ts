// From a panel's JSON to the data frames that Grafana's panels would be given: queries, transformations, field options.
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  FieldType,
  standardTransformersRegistry,
  toDataFrame,
  transformDataFrame,
} from '@grafana/data';
import { registry, theme } from './setup';

export interface Context {
  prometheus: string;
  from: number; // ms
  to: number;
  variables: Record<string, string>;
}

const NICE = [15, 20, 30, 60, 120, 300, 600, 1200, 3600];
const PLUGIN_DEFAULTS: any = {
  timeseries: { color: { mode: 'palette-classic' }, custom: { drawStyle: 'line', pointSize: 5, axisPlacement: 'auto' } },
  table: { custom: { align: 'auto', cellOptions: { type: 'auto' }, inspect: false } },
};
const DEFAULTS = {
  color: { mode: 'thresholds' },
  thresholds: { mode: 'absolute', steps: [{ value: -Infinity, color: 'green' }] },
  mappings: [],
};

export function filled(text: string, context: Context, step: number): string {
  const range = Math.round((context.to - context.from) / 1000);
  const macros: Record<string, string> = {
    __rate_interval: `${Math.max(60, step + 15)}s`,
    __range: `${range}s`,
    ...context.variables,
  };
  return text.replace(/\$\{(\w+)(?::\w+)?\}|\$(\w+)/g, (all, braced, plain) => macros[braced ?? plain] ?? all);
}

export async function load(given: any, context: Context): Promise<any[]> {
  const panel = withDefaults(given);
  const wanted = (context.to - context.from) / 1000 / (panel.maxDataPoints ?? 1000);
  const step = NICE.find((nice) => nice >= wanted) ?? 3600;
  let frames: any[] = (await Promise.all(panel.targets.map((target: any) => query(target, context, step, panel.targets.length > 1)))).flat();
  if (panel.transformations?.length) {
    standardTransformersRegistry.list();
    frames = await new Promise((done, failed) =>
      transformDataFrame(panel.transformations, frames, { interpolate: (text: string) => text } as any).subscribe({
        next: done as any,
        error: failed,
      })
    );
  }
  const data = applyFieldOverrides({
    data: frames,
    fieldConfig: panel.fieldConfig,
    theme,
    replaceVariables: (text: string) => filled(text, context, step),
    timeZone: 'utc',
    fieldConfigRegistry: registry,
  } as any);
  cacheFieldDisplayNames(data);
  return data;
}

function withDefaults(panel: any): any {
  const config = structuredClone(panel.fieldConfig);
  const plugin = PLUGIN_DEFAULTS[panel.type] ?? {};
  const custom = { ...plugin.custom, ...config.defaults.custom };
  config.defaults = { ...DEFAULTS, ...plugin, ...config.defaults, custom };
  const overridden = config.overrides.flatMap((rule: any) => rule.properties).filter((how: any) => how.id === 'thresholds');
  for (const thresholds of [config.defaults.thresholds, ...overridden.map((how: any) => how.value)]) {
    thresholds.steps[0].value = -Infinity; // null in JSON
  }
  return { ...panel, fieldConfig: config };
}

async function query(target: any, context: Context, step: number, several: boolean): Promise<any[]> {
  const what = target.instant
    ? `query?time=${context.to / 1000}`
    : `query_range?start=${context.from / 1000}&end=${context.to / 1000}&step=${step}`;
  const url = `${context.prometheus}/api/v1/${what}&query=${encodeURIComponent(filled(target.expr, context, step))}`;
  const answer = await (await fetch(url)).json();
  if (answer.status !== 'success') {
    throw new Error(answer.error);
  }
  const rows = answer.data.result;
  if (target.format === 'table') {
    return rows.length ? [asTable(target.refId, rows, several ? `Value #${target.refId}` : 'Value')] : [];
  }
  const grid: number[] = [];
  for (let time = context.from; time <= context.to; time += step * 1000) {
    grid.push(time);
  }
  return rows.map((row: any) => asSeries(target, row, row.value ? [row.value[0] * 1000] : grid));
}

function asTable(refId: string, rows: any[], value: string): any {
  const labels = [...new Set<string>(rows.flatMap((row: any) => Object.keys(row.metric)))].sort();
  return toDataFrame({
    refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: rows.map((row: any) => row.value[0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, values: rows.map((row: any) => row.metric[label] ?? '') })),
      { name: value, type: FieldType.number, values: rows.map((row: any) => Number(row.value[1])) },
    ],
  });
}

function asSeries(target: any, row: any, times: number[]): any {
  const name = target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_: string, label: string) => row.metric[label] ?? '');
  const at = new Map(
    (row.values ?? [row.value]).map(([time, value]: any) => [Math.round(time * 1000), value === 'NaN' ? null : Number(value)])
  );
  return toDataFrame({
    refId: target.refId,
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: times },
      {
        name: 'Value',
        type: FieldType.number,
        labels: row.metric,
        config: { displayNameFromDS: name || 'Value' },
        values: times.map((time) => at.get(Math.round(time)) ?? null),
      },
    ],
  });
}
