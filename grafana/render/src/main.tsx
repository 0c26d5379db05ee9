// A page that shows one dashboard: its panels where gridPos has them, drawn by Grafana's UI library.
import { dateTime, reduceField, ThemeContext } from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, PortalContainer, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import React from 'react';
import { createRoot } from 'react-dom/client';
import { filled, load } from './load';
import { Rows } from './rows';
import { theme } from './setup';

const CELL = 38;

function Body({ panel, frames, width, height, context }: any) {
  const range: any = { from: dateTime(context.from), to: dateTime(context.to) };
  range.raw = { from: range.from, to: range.to };
  if (!frames.some((frame: any) => frame.length)) {
    return <div style={{ color: '#9a9aa5', padding: 20, textAlign: 'center' }}>{panel.fieldConfig.defaults.noValue || 'No data'}</div>;
  }
  const shared = { width, height, timeRange: range, structureRev: 1 };
  switch (panel.type) {
    case 'table':
      return (
        <TableNG
          {...(shared as any)}
          data={frames[0]}
          cellHeight={panel.options.cellHeight}
          initialSortBy={panel.options.sortBy}
          frozenColumns={panel.options.frozenColumns?.left ?? 0}
          fieldConfig={panel.fieldConfig}
          enableSharedCrosshair={false}
          transparent={false}
        />
      );
    case 'stat': {
      const field = frames[0].fields.find((one: any) => one.type === 'number');
      const value = field.display(reduceField({ field, reducers: ['lastNotNull'] }).lastNotNull);
      const named = panel.options.textMode === 'name';
      const shown = named ? { ...value, text: field.config.displayNameFromDS, prefix: '', suffix: '' } : value;
      return <BigValue {...(shared as any)} value={shown} theme={theme} colorMode={panel.options.colorMode} graphMode="none" textMode="value" justifyMode="center" />;
    }
    case 'timeseries':
      return <TimeSeries {...(shared as any)} frames={frames} timeZone="utc" legend={panel.options.legend} options={{}} />;
    default:
      return <Rows panel={panel} frames={frames} width={width} height={height} from={context.from} to={context.to} />;
  }
}

class Guard extends React.Component<any, any> {
  state = { error: null as any };
  static getDerivedStateFromError(error: any) {
    return { error };
  }
  render() {
    return this.state.error ? <pre style={{ color: '#D55E00' }}>{String(this.state.error.stack)}</pre> : this.props.children;
  }
}

function Panel({ panel, context, unit }: any) {
  const [state, set] = React.useState<any>({});
  React.useEffect(() => {
    if (panel.type === 'row') {
      return;
    }
    load(panel, context).then(
      (frames) => set({ frames }),
      (error) => set({ error: String(error) })
    );
  }, []);
  const { x, y, w, h } = panel.gridPos;
  const place = { position: 'absolute' as const, left: x * unit + 4, top: y * CELL + 4, width: w * unit - 8, height: h * CELL - 8 };
  const title = filled(panel.title, context, 60);
  if (panel.type === 'row') {
    return <div style={{ ...place, fontSize: 16, fontWeight: 500, paddingTop: 4 }}>⌄ {title}</div>;
  }
  return (
    <div style={place} data-panel={panel.title} data-error={state.error ?? ''} data-frames={state.frames?.length ?? -1}>
      <PanelChrome title={title} width={place.width} height={place.height} padding="sm" statusMessage={state.error}>
        {(width: number, height: number) =>
          state.frames ? (
            <Guard>
              <Body panel={panel} frames={state.frames} width={width} height={height} context={context} />
            </Guard>
          ) : (
            <pre>{state.error}</pre>
          )
        }
      </PanelChrome>
    </div>
  );
}

const asked = await (await fetch('/asked.json')).json();
const panels = asked.dashboard.panels.filter((panel: any) => !asked.titles || asked.titles.includes(panel.title));
const first = Math.min(...panels.map((panel: any) => panel.gridPos.y));
panels.forEach((panel: any) => (panel.gridPos.y -= first));
const bottom = Math.max(...panels.map((panel: any) => panel.gridPos.y + panel.gridPos.h));
createRoot(document.getElementById('root')!).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div style={{ width: asked.width, height: bottom * CELL, position: 'relative', color: '#ccccdc', fontSize: 14, fontFamily: 'Inter, Helvetica, Arial, sans-serif' }}>
      {panels.map((panel: any) => (
        <Panel key={panel.id} panel={panel} context={asked.context} unit={asked.width / 24} />
      ))}
      <PortalContainer />
    </div>
  </ThemeContext.Provider>
);
(window as any).__height__ = bottom * CELL;
