// SPDX-License-Identifier: Apache-2.0
//
// types.ts - what a dashboard of ours must be in the eyes of Grafana's own types. The test appends
// `const overview: Shipped = {...}` for each JSON file and has tsc judge it: unknown keys, wrong values and
// options that a panel does not have are errors.
//
// Two things stand in the way of a plain `Dashboard`. JSON has the words of an enum and not the enum, so
// Plain<> turns enums into their words. And the base type leaves the options of a panel open, so each kind of
// panel that we use is spelled out here.
import type * as schema from '@grafana/schema';
import type { Options as GaugeOptions } from '@grafana/schema/dist/esm/raw/composable/gauge/panelcfg/x/GaugePanelCfg_types.gen';
import type { Options as HeatmapOptions } from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type { Options as StatOptions } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type {
    FieldConfig as StateTimelineFieldConfig, Options as StateTimelineOptions,
} from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type { FieldConfig as TableFieldConfig, Options as TableOptions } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type { Options as TextOptions } from '@grafana/schema/dist/esm/raw/composable/text/panelcfg/x/TextPanelCfg_types.gen';
import type {
    FieldConfig as TimeSeriesFieldConfig, Options as TimeSeriesOptions,
} from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

type Plain<T> =
    T extends string ? `${T}` :
    T extends number | boolean | null | undefined ? T :
    T extends (infer Item)[] ? Plain<Item>[] :
    T extends object ? { [Key in keyof T]: Plain<T[Key]> } : T;

// A query to Prometheus. Its type is not part of @grafana/schema any more.
interface Query {
    refId: string;
    datasource?: schema.DataSourceRef;
    editorMode?: 'code' | 'builder';
    expr: string;
    format?: 'time_series' | 'table' | 'heatmap';
    exemplar?: boolean;
    instant?: boolean;
    range?: boolean;
    interval?: string;
    legendFormat?: string;
}

type PanelOf<Type extends string, Options, Custom = Record<string, never>> =
    Omit<Plain<schema.Panel>, 'type' | 'options' | 'targets' | 'fieldConfig'> & {
        type: Type;
        options?: Partial<Plain<Options>>;
        targets?: Query[];
        fieldConfig?: Omit<Plain<schema.FieldConfigSource>, 'defaults'> & {
            defaults: Omit<Plain<schema.FieldConfig>, 'custom'> & { custom?: Partial<Plain<Custom>> };
        };
    };

type Panel =
    | PanelOf<'gauge', GaugeOptions>
    | PanelOf<'heatmap', HeatmapOptions, Plain<schema.HideableFieldConfig>>
    | PanelOf<'stat', StatOptions>
    | PanelOf<'state-timeline', StateTimelineOptions, StateTimelineFieldConfig>
    | PanelOf<'table', TableOptions, TableFieldConfig>
    | PanelOf<'text', TextOptions>
    | PanelOf<'timeseries', TimeSeriesOptions, TimeSeriesFieldConfig>;

// What the Prometheus data source reads besides what every annotation has.
interface Annotation extends Omit<Plain<schema.AnnotationQuery>, 'target'> {
    target?: Query;
    expr?: string;
    step?: string;
    titleFormat?: string;
    textFormat?: string;
    useValueForTime?: boolean;
}

type Row = Omit<Plain<schema.RowPanel>, 'panels'> & { panels: Panel[] };

export type Shipped = Omit<Plain<schema.Dashboard>, 'panels' | 'annotations'> & {
    panels: (Panel | Row)[];
    annotations: { list: Annotation[] };
};
